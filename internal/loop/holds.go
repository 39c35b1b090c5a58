package loop

import (
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/watch"
)

// watchHolds has a hold end when somebody removes its file.
func (d *driver) watchHolds() {
	o := watch.Options{Warn: d.Warn, Interval: d.flow.Polling.Interval}
	d.onChange(d.ctx, d.path(holdsDir), o, func() { d.send(note{holds: true}) })
}

// missHolds clears the holds whose files are gone. The owner writes those files
// itself, so that here a file that is missing is one that somebody took away. A hold
// that could not be written has none to miss.
func (d *driver) missHolds() {
	for backend, written := range d.held {
		if !written || d.hasHoldFile(backend) {
			continue
		}
		delete(d.held, backend)
		d.apply(schedule.Command{Kind: schedule.CommandClear, Target: backend})
	}
}

func (d *driver) hasHoldFile(backend string) bool {
	path, err := d.holdFile(backend)
	return err == nil && exists(path)
}
