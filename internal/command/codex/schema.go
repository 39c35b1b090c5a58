package codex

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex"
	"ostoolkit/internal/codex/schema"
)

func (d driver) reportSchema(ctx context.Context, env *cli.Env, r report, l codex.Launch, version string) {
	if d.options.noSchema {
		return
	}
	o, err := schemaOptions(env, l, version)
	if errors.Is(err, errNoGenerator) {
		r.OK("schema", "not checked: %v", err)
		return
	}
	if err != nil {
		r.Warning("schema", "not checked: %v", err)
		return
	}
	v, err := schema.Check(ctx, o)
	switch {
	case err != nil:
		r.Warning("schema", "not checked: %v", err)
	case len(v.Problems) > 0:
		r.Warning("schema", "%s", v)
	default:
		r.OK("schema", "all %d requests are understood", len(o.Requests))
	}
}

// checkSchema returns what a session runs beside it, nil for nothing.
func (d driver) checkSchema(env *cli.Env, l codex.Launch) func(ctx context.Context, version string) string {
	if d.options.noSchema {
		return nil
	}
	return func(ctx context.Context, version string) string {
		o, err := schemaOptions(env, l, version)
		if errors.Is(err, errNoGenerator) {
			return ""
		}
		var v *schema.Verdict
		if err == nil {
			v, err = schema.Check(ctx, o)
		}
		switch {
		case ctx.Err() != nil:
			return "" // the session is over
		case err != nil:
			return fmt.Sprintf("our requests were not checked: %v", err)
		case len(v.Problems) > 0:
			return fmt.Sprintf("codex %s may not understand us: %s", version, v)
		}
		return ""
	}
}

var errNoGenerator = errors.New("nobody can know how this command writes its schema")

func schemaOptions(env *cli.Env, l codex.Launch, version string) (schema.Options, error) {
	argv, err := l.Resolve()
	if err != nil {
		return schema.Options{}, err
	}
	if argv = schema.Generator(argv); argv == nil {
		return schema.Options{}, errNoGenerator
	}
	cache, err := cacheDir(env)
	if err != nil {
		return schema.Options{}, err
	}
	o := schema.Options{Cache: cache, Argv: argv, Env: l.Env, Version: cli.Version(), Peer: version, Now: env.Now}
	for _, r := range codex.Templates() {
		o.Requests = append(o.Requests, schema.Request{Method: r.Method, Params: r.Params})
	}
	return o, nil
}

// cacheDir is where verdicts are kept.
func cacheDir(env *cli.Env) (string, error) {
	base := env.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home, err := env.Home()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "os", "codex-schema"), nil
}
