package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// poll starts a loop that looks into the box now and then and sends what lies there. The
// end of s ends it, and then calls then.
func (s *steered) poll(send func(text string) error, then func() error) {
	stop, polled := make(chan struct{}), make(chan error, 1)
	go func() { polled <- poll(s.box, send, stop) }()
	s.end = func() error {
		close(stop)
		return errors.Join(<-polled, then())
	}
}

// poll hands over what lies in the box, until stop.
func poll(box string, send func(text string) error, stop <-chan struct{}) error {
	tick := time.NewTicker(pollEach)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		files, err := filepath.Glob(filepath.Join(box, "*.request.json"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := handOver(file, send); err != nil {
				return err
			}
		}
	}
}

func handOver(file string, send func(text string) error) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var request map[string]string
	if err := json.Unmarshal(data, &request); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	return send(request["text"])
}
