package linger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// NewSchedule says when jobs are added, and which: by Cron or by Every. What is left out has the server's default.
type NewSchedule struct {
	Cron         string          // a pattern of five fields, or of six with the second first
	TimeZone     string          // of the pattern, by its IANA name; UTC if empty
	Every        time.Duration   // in place of Cron: the time between two runs
	Start        time.Time       // no run is before it
	End          time.Time       // no run is after it
	Jitter       time.Duration   // each job is due up to so much later
	Overlap      string          // what a run does if the job of the last one is not over: "skip", "allow" or "replace"
	Missed       string          // which runs take place that an outage has made late: "one", "all" or "none"
	MissedWithin time.Duration   // how late those may be
	Job          NewJob          // without ID, Delay and At
	RawJob       json.RawMessage // in place of Job: as the API has it, such as that of a Schedule
}

func (s *NewSchedule) definition() ([]byte, error) {
	job := s.RawJob
	if job == nil {
		var err error
		if job, err = s.Job.template(); err != nil {
			return nil, err
		}
	}
	fields := map[string]any{}
	setText(fields, "cron", s.Cron)
	setText(fields, "time_zone", s.TimeZone)
	setDuration(fields, "every", s.Every)
	setTime(fields, "start", s.Start)
	setTime(fields, "end", s.End)
	setDuration(fields, "jitter", s.Jitter)
	setText(fields, "overlap", s.Overlap)
	setText(fields, "missed", s.Missed)
	setDuration(fields, "missed_within", s.MissedWithin)
	return withMember(fields, "job", job)
}

// Schedule is a schedule as the server shows it.
type Schedule struct {
	Name         string          `json:"name"`
	Cron         string          `json:"cron"`
	TimeZone     string          `json:"time_zone"`
	Every        time.Duration   `json:"-"`
	Start        time.Time       `json:"start"`
	End          time.Time       `json:"end"`
	Jitter       time.Duration   `json:"-"`
	Overlap      string          `json:"overlap"`
	Missed       string          `json:"missed"`
	MissedWithin time.Duration   `json:"-"`
	Job          json.RawMessage `json:"job"`      // as it was given, with [hidden] for the value of each header of its callback
	Revision     int64           `json:"revision"` // counts the changes by clients, from 1
	State        string          `json:"state"`    // active, paused, waiting, ahead or ended; later versions may have more
	Next         []time.Time     `json:"next"`     // the next three runs or fewer, also while it is paused
	Last         time.Time       `json:"last"`     // the last run, also one that did not take place; zero before the first
	LastJob      string          `json:"last_job"` // the id of the job of the last run
	Waiting      struct {        // set while a run is due that cannot be added
		Since  time.Time
		Reason string
	} `json:"waiting"`
	Runs struct { // how many took place, gave way to the one before, or were missed
		Fired, Overlap, Missed int64
	} `json:"runs"`
	Created bool `json:"-"` // the put made it; false also if an earlier try of the put did
}

// UnmarshalJSON reads a schedule of the API. It refuses an object without the members that every schedule has.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	type plain Schedule
	wire := struct {
		*plain
		Every        float64 `json:"every"`
		Jitter       float64 `json:"jitter"`
		MissedWithin float64 `json:"missed_within"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	if s.Name == "" || s.State == "" || s.Revision == 0 || s.Job == nil || s.Next == nil {
		return errors.New("this is no schedule")
	}
	s.Every, s.Jitter, s.MissedWithin = duration(wire.Every), duration(wire.Jitter), duration(wire.MissedWithin)
	return nil
}

// PutSchedule makes a schedule, or replaces its definition as a whole. The same definition again changes nothing.
func (c *Client) PutSchedule(ctx context.Context, name string, schedule NewSchedule) (*Schedule, error) {
	return c.putSchedule(ctx, name, "", schedule)
}

// PutScheduleIf puts a schedule, as PutSchedule does, if it has this revision, or, for 0, if there is none. Otherwise it is refused
// with the code revision_differs. If that has Repeated, the change may be one of an earlier try of this call.
func (c *Client) PutScheduleIf(ctx context.Context, name string, revision int64, schedule NewSchedule) (*Schedule, error) {
	return c.putSchedule(ctx, name, `"`+strconv.FormatInt(revision, 10)+`"`, schedule)
}

func (c *Client) putSchedule(ctx context.Context, name, ifMatch string, schedule NewSchedule) (*Schedule, error) {
	definition, err := schedule.definition()
	if err != nil {
		return nil, err
	}
	put := &Schedule{}
	read := func(answer reply) error {
		err := readSchedule(put, name, answer)
		put.Created = answer.status == http.StatusCreated
		return err
	}
	return put, c.doSchedule(ctx, "put", name, call{method: "PUT", raw: definition, ifMatch: ifMatch, read: read})
}

// GetSchedule reads a schedule. One that does not exist is refused with the code schedule_not_found.
func (c *Client) GetSchedule(ctx context.Context, name string) (*Schedule, error) {
	schedule := &Schedule{}
	return schedule, c.doSchedule(ctx, "get", name, call{method: "GET", read: scheduleReader(schedule, name)})
}

// Schedules lists all schedules by name. It reads up to a hundred at a time, when they are needed. From Go 1.23 on:
//
//	for schedule, err := range client.Schedules(ctx) {
//		...
//	}
//
// With an older version, give the list a function that gets each schedule and returns whether to go on. An error ends the list.
func (c *Client) Schedules(ctx context.Context) func(yield func(*Schedule, error) bool) {
	return func(yield func(*Schedule, error) bool) {
		for cursor, isLast := "", false; !isLast; {
			var page schedulePage
			request := call{method: "GET", path: "/schedules", read: page.read}
			if cursor != "" {
				request.path += "?cursor=" + url.QueryEscape(cursor)
			}
			if err := c.do(ctx, request); err != nil {
				yield(nil, fmt.Errorf("list schedules: %w", err))
				return
			}
			for _, schedule := range *page.Schedules {
				if !yield(schedule, nil) {
					return
				}
			}
			cursor, isLast = page.NextCursor, page.NextCursor == ""
		}
	}
}

type schedulePage struct {
	Schedules  *[]*Schedule `json:"schedules"`
	NextCursor string       `json:"next_cursor"`
}

func (p *schedulePage) read(answer reply) error {
	var page schedulePage
	if err := json.Unmarshal(answer.body, &page); err != nil {
		return err
	}
	if answer.status != http.StatusOK || page.Schedules == nil {
		return errors.New("there are no schedules in the answer")
	}
	for _, schedule := range *page.Schedules {
		if schedule == nil {
			return errors.New("a schedule is null")
		}
	}
	*p = page
	return nil
}

// NextRuns returns up to count next runs of a schedule, also while it is paused: 1,000 at most; 0 is 10.
func (c *Client) NextRuns(ctx context.Context, name string, count int) ([]time.Time, error) {
	var next []time.Time
	request := call{method: "GET", path: "/next"}
	if count != 0 {
		request.path += "?count=" + strconv.Itoa(count)
	}
	request.read = func(answer reply) error {
		var out struct {
			Next []time.Time `json:"next"`
		}
		if err := json.Unmarshal(answer.body, &out); err != nil {
			return err
		}
		if answer.status != http.StatusOK || out.Next == nil {
			return errors.New("there are no runs in the answer")
		}
		next = out.Next
		return nil
	}
	err := c.doSchedule(ctx, "next runs of", name, request)
	return next, err
}

// DeleteSchedule deletes a schedule, but not the jobs that it has added. It returns whether there was one; after a lost answer, a
// missing schedule counts as deleted by this call.
func (c *Client) DeleteSchedule(ctx context.Context, name string) (bool, error) {
	err := c.doSchedule(ctx, "delete", name, call{method: "DELETE", read: readNothing})
	if Code(err) == "schedule_not_found" {
		return wasRepeated(err), nil
	}
	return err == nil, err
}

// PauseSchedule pauses a schedule: it adds no jobs until it is resumed.
func (c *Client) PauseSchedule(ctx context.Context, name string) (*Schedule, error) {
	schedule := &Schedule{}
	return schedule, c.doSchedule(ctx, "pause", name, call{method: "POST", path: "/pause", read: scheduleReader(schedule, name)})
}

// ResumeSchedule resumes a schedule, without the runs that it would have had while it was paused.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (*Schedule, error) {
	schedule := &Schedule{}
	return schedule, c.doSchedule(ctx, "resume", name, call{method: "POST", path: "/resume", read: scheduleReader(schedule, name)})
}

// RunSchedule adds a job of a schedule now, and returns it; the schedule does not change. A second run with the same id adds nothing
// while that job lives, and returns it with Replayed. The client makes an id if it is empty.
func (c *Client) RunSchedule(ctx context.Context, name, id string) (*Job, error) {
	if id == "" {
		var err error
		if id, err = newID(); err != nil {
			return nil, err
		}
	}
	job, fields := &Job{}, map[string]any{"id": id}
	read := addedReader(job, "run:"+name+":"+id)
	return job, c.doSchedule(ctx, "run", name, call{method: "POST", path: "/run", fields: fields, read: read})
}

// doSchedule makes a call about a schedule, whose path begins below that of the schedule.
func (c *Client) doSchedule(ctx context.Context, what, name string, call call) error {
	if isNoSegment(name) {
		return fmt.Errorf("%s schedule: a name must not be %q, which no URL can name", what, name)
	}
	call.path = "/schedules/" + url.PathEscape(name) + call.path
	if err := c.do(ctx, call); err != nil {
		return fmt.Errorf("%s schedule %s: %w", what, name, err)
	}
	return nil
}

func scheduleReader(schedule *Schedule, name string) reader {
	return func(answer reply) error {
		if answer.status != http.StatusOK {
			return errors.New("the status is not 200")
		}
		return readSchedule(schedule, name, answer)
	}
}

func readSchedule(schedule *Schedule, name string, answer reply) error {
	var found Schedule
	if err := json.Unmarshal(answer.body, &found); err != nil {
		return err
	}
	if found.Name != name || answer.status != http.StatusOK && answer.status != http.StatusCreated {
		return errors.New("this is not the schedule")
	}
	*schedule = found
	return nil
}
