package linger

import (
	"context"
	"encoding/json"
	"time"
)

// Reschedule makes a delayed or ready job due after delay; 0 is now.
func (c *Client) Reschedule(ctx context.Context, id string, delay time.Duration) (*Job, error) {
	return c.patch(ctx, "reschedule", id, JobPatch{Delay: &delay})
}

// RescheduleAt makes a delayed or ready job due at this time.
func (c *Client) RescheduleAt(ctx context.Context, id string, at time.Time) (*Job, error) {
	return c.patch(ctx, "reschedule", id, JobPatch{At: at})
}

// JobPatch has the changes of a job. What is left out, or zero, stays as it is.
type JobPatch struct {
	Delay       *time.Duration // from now; 0 is now
	At          time.Time      // in place of Delay
	TTR         time.Duration
	MaxAttempts int             // or NoLimit
	Retry       []time.Duration // one that is empty, and not nil, takes the waits away
	Expire      time.Duration   // from the due time
	ExpireAt    time.Time       // in place of Expire
	OnExpiry    string          // with Expire or ExpireAt
	ClearExpire bool            // takes the expiry away
	Body        any             // as in NewJob; json.RawMessage("null") for null
}

// Patch changes a delayed or ready job.
func (c *Client) Patch(ctx context.Context, id string, changes JobPatch) (*Job, error) {
	return c.patch(ctx, "patch", id, changes)
}

func (c *Client) patch(ctx context.Context, name, id string, changes JobPatch) (*Job, error) {
	definition, err := changes.definition()
	if err != nil {
		return nil, err
	}
	job := &Job{}
	return job, c.doJob(ctx, name, id, call{method: "PATCH", raw: definition, read: jobReader(job, id)})
}

func (p *JobPatch) definition() ([]byte, error) {
	fields := map[string]any{}
	if p.Delay != nil {
		fields["delay"] = text(*p.Delay)
	}
	setTime(fields, "at", p.At)
	setDuration(fields, "ttr", p.TTR)
	setAttempts(fields, p.MaxAttempts, p.Retry)
	setExpiry(fields, p.Expire, p.ExpireAt, p.OnExpiry)
	if p.ClearExpire {
		fields["clear_expire"] = true
	}
	if p.Body == nil {
		return json.Marshal(fields)
	}
	return withMember(fields, "body", p.Body)
}
