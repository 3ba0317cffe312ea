package linger

import (
	"context"
	"fmt"
	"time"
)

// ReleaseMany gives up to 1,000 jobs of pops back in one call, as Release does. The results are in the order of the jobs: nil where
// it is done, else the refusal, which does not affect the others. After a lost answer, what the first try did is refused.
func (c *Client) ReleaseMany(ctx context.Context, jobs []*Job, delay *time.Duration, reason string) ([]*RefusedError, error) {
	fields := map[string]any{"reason": reason}
	if delay != nil {
		fields["delay"] = text(*delay)
	}
	return c.holdMany(ctx, "release", jobs, fields, call{})
}

// ReleaseManyAt gives jobs back, as ReleaseMany does. The next attempts come at this time.
func (c *Client) ReleaseManyAt(ctx context.Context, jobs []*Job, at time.Time, reason string) ([]*RefusedError, error) {
	return c.holdMany(ctx, "release", jobs, map[string]any{"reason": reason, "at": instant(at)}, call{})
}

// TouchMany makes up to 1,000 reservations last ttr from now; 0: each job's own TTR. The results are as in ReleaseMany.
func (c *Client) TouchMany(ctx context.Context, jobs []*Job, ttr time.Duration) ([]*RefusedError, error) {
	fields := map[string]any{}
	setDuration(fields, "ttr", ttr)
	return c.holdMany(ctx, "touch", jobs, fields, call{})
}

// BuryMany makes up to 1,000 jobs of pops dead letters. The results are as in ReleaseMany.
func (c *Client) BuryMany(ctx context.Context, jobs []*Job, reason string) ([]*RefusedError, error) {
	return c.holdMany(ctx, "bury", jobs, map[string]any{"reason": reason}, call{})
}

// holdMany is a call by the holder of many jobs, with the same fields for each; request has its limit and repeats.
func (c *Client) holdMany(
	ctx context.Context, step string, jobs []*Job, fields map[string]any, request call,
) ([]*RefusedError, error) {
	items := make([]map[string]any, len(jobs))
	for i, job := range jobs {
		items[i] = map[string]any{"id": job.ID, "receipt": job.Receipt}
		for name, value := range fields {
			items[i][name] = value
		}
	}
	var refused []*RefusedError
	request.method, request.path, request.fields = "POST", "/batch/"+step, map[string]any{"jobs": items}
	request.read = func(answer reply) (err error) {
		refused, err = readHeld(jobs, answer)
		return err
	}
	if err := c.do(ctx, request); err != nil {
		return nil, fmt.Errorf("%s %d jobs: %w", step, len(jobs), err)
	}
	return refused, nil
}
