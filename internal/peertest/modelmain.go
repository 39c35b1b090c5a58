package peertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ostoolkit/internal/cli"
)

// ModelMain is the script command "model": a scripted model until SIGTERM or
// SIGINT, which end it with status 0.
func ModelMain(env *cli.Env) int { return cli.Main("model", env, runModel) }

func runModel(ctx context.Context, env *cli.Env) (err error) {
	u := &cli.Usage{
		Name:     "model",
		Synopsis: []string{"--url-file FILE [--log FILE] [--script FILE]"},
		About:    "Serve a scripted model on loopback until a signal.",
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage},
	}
	fs := u.Flags()
	urlFile := fs.String("url-file", "", "`FILE` that gets the base URL, by rename")
	logFile := fs.String("log", "", "`FILE` that gets one JSON line a request")
	scriptFile := fs.String("script", "", "`FILE` with rules for prompts without steps")
	rest, err := u.Parse(fs, env.Args)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return cli.Usagef("unexpected argument %q", rest[0])
	case *urlFile == "":
		return cli.Usagef("--url-file is missing")
	}
	options, closeLog, err := modelOptions(*logFile, *scriptFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	model, err := StartModel(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	if err := writeByRename(*urlFile, model.URL()+"\n"); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func modelOptions(logFile, scriptFile string) (ModelOptions, func() error, error) {
	var o ModelOptions
	closeLog := func() error { return nil }
	if scriptFile != "" {
		text, err := os.ReadFile(scriptFile)
		if err != nil {
			return o, closeLog, fmt.Errorf("read script: %w", err)
		}
		if o.Script, err = ParseScript(string(text)); err != nil {
			return o, closeLog, fmt.Errorf("%s: %w", scriptFile, err)
		}
	}
	if logFile != "" {
		f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return o, closeLog, fmt.Errorf("open log: %w", err)
		}
		o.Log, closeLog = f, f.Close
	}
	return o, closeLog, nil
}

// writeByRename makes a file appear whole, for whoever waits for it.
func writeByRename(path, text string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	_, err = temp.WriteString(text)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %q: %w", path, err), os.Remove(temp.Name()))
	}
	return nil
}
