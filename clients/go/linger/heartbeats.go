package linger

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"
)

// Heartbeats of a worker: one call carries those of many jobs.
//
// Whichever attempt finds that its heartbeat is due has it sent, and with it each other one of which half the wait is over. So jobs
// with the same TTR come to one call a beat, whenever they arrived. Each result concerns its own job, and each attempt waits for its
// answer no longer than its own reservation allows.

const (
	// The most jobs of one call, as servers take them by default.
	mostBeats = 1000
	// How long heartbeats are sent one by one after a call for many was not taken. The server may be replaced by a newer one.
	singleFor = 10 * time.Minute
)

// heartbeat is the next one of a job, due when the wait since a moment is over.
type heartbeat struct {
	id, receipt string
	from        time.Time
	wait        time.Duration
	limit       time.Duration // how long its answer may take
	answer      chan touched  // gets one value
	sent        time.Time     // zero before
}

// touched is the answer to a heartbeat.
type touched struct {
	sent time.Time
	err  error
}

// tell gives the attempt an answer, unless it has one.
func (b *heartbeat) tell(answer touched) {
	select {
	case b.answer <- answer:
	default:
	}
}

// heartbeats sends those of all jobs of a worker.
type heartbeats struct {
	client      *Client
	ttr         time.Duration
	lock        sync.Mutex
	waiting     map[*heartbeat]bool
	singleSince time.Time // when a call for many was not taken
}

// plan has a heartbeat sent so long after a moment, or before along with another one.
func (h *heartbeats) plan(job *Job, lease time.Duration, from time.Time, wait time.Duration) *heartbeat {
	beat := &heartbeat{
		id: job.ID, receipt: job.Receipt, from: from, wait: wait, limit: touchLimit(lease), answer: make(chan touched, 1),
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.waiting[beat] = true
	return beat
}

// drop has a heartbeat not be sent, unless it was.
func (h *heartbeats) drop(beat *heartbeat) {
	h.lock.Lock()
	defer h.lock.Unlock()
	delete(h.waiting, beat)
}

// send sends a heartbeat that is due, unless another one has taken it along, and those that go with it. It returns when the
// heartbeat was sent.
func (h *heartbeats) send(due *heartbeat) time.Time {
	group, sent, isSingle := h.take(due)
	if !isSingle && len(group) > 1 {
		go h.touchTogether(group)
	} else {
		h.sendAlone(group)
	}
	return sent
}

func (h *heartbeats) sendAlone(group []*heartbeat) {
	for _, beat := range group {
		go h.touch(beat)
	}
}

func (h *heartbeats) take(due *heartbeat) (group []*heartbeat, sent time.Time, isSingle bool) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if !h.waiting[due] {
		return nil, due.sent, false
	}
	left := func(beat *heartbeat) time.Duration { return beat.wait - since(beat.from) }
	for beat := range h.waiting {
		if beat != due && left(beat) <= beat.wait/2 {
			group = append(group, beat)
		}
	}
	sort.Slice(group, func(i, j int) bool { return left(group[i]) < left(group[j]) })
	if len(group) >= mostBeats {
		group = group[:mostBeats-1]
	}
	group = append(group, due)
	sent = time.Now()
	for _, beat := range group {
		delete(h.waiting, beat)
		beat.sent = sent
	}
	return group, sent, !h.singleSince.IsZero() && since(h.singleSince) < singleFor
}

// touch sends a heartbeat by a call of its own.
func (h *heartbeats) touch(beat *heartbeat) {
	fields := map[string]any{"receipt": beat.receipt}
	setDuration(fields, "ttr", h.ttr)
	request := call{
		method: "POST", path: "/touch", fields: fields, read: jobReader(&Job{}, beat.id), limit: beat.limit, repeats: never,
	}
	sent := time.Now()
	beat.tell(touched{sent, h.client.doJob(context.Background(), "touch", beat.id, request)})
}

// touchTogether sends heartbeats by one call.
func (h *heartbeats) touchTogether(group []*heartbeat) {
	sent, limit := time.Now(), time.Duration(0)
	reserved := make([]*Job, len(group))
	for i, beat := range group {
		beat := beat
		late := func() { beat.tell(touched{sent, errors.New("no answer in time")}) }
		defer time.AfterFunc(beat.limit, late).Stop()
		limit = longer(limit, beat.limit)
		reserved[i] = &Job{ID: beat.id, Receipt: beat.receipt}
	}
	fields := map[string]any{}
	setDuration(fields, "ttr", h.ttr)
	refused, err := h.client.holdMany(context.Background(), "touch", reserved, fields, call{limit: limit, repeats: never})
	if isNotTaken(err) {
		h.lock.Lock()
		h.singleSince = time.Now()
		h.lock.Unlock()
		h.sendAlone(group)
		return
	}
	for i, beat := range group {
		own := err
		if err == nil && refused[i] != nil {
			own = refused[i]
		}
		beat.tell(touched{sent, own})
	}
}

// touchLimit is how long a heartbeat may take: another one can follow in time if it is not answered.
func touchLimit(lease time.Duration) time.Duration {
	return longer(shorter(lease/10, 10*time.Second), 250*time.Millisecond)
}

// reservation is what an answer to a touch says of it.
type reservation int

const (
	reservationUnknown reservation = iota
	reservationRenewed
	reservationTimedOut // and no worker has had the job since: a finish still counts
	reservationGone
)

func reservationAfter(err error) reservation {
	var refused *RefusedError
	switch code := Code(err); {
	case err == nil:
		return reservationRenewed
	case code == "lease_lost" && errors.As(err, &refused) && !refused.Retaken:
		return reservationTimedOut
	case isGone(code):
		return reservationGone
	}
	return reservationUnknown
}

// isGone tells whether a code says that this worker does not have the job any more.
func isGone(code string) bool {
	switch code {
	case "job_not_found", "job_replaced", "lease_lost", "not_reserved":
		return true
	}
	return false
}

// isNotTaken tells whether the server, or a proxy before it, does not take this call for many jobs, and so may take one for each.
func isNotTaken(err error) bool {
	var refused *RefusedError
	var unanswered *NoAnswerError
	status, isOfToken := 0, false
	switch {
	case errors.As(err, &refused):
		status, isOfToken = refused.Status, refused.Status == 401 || refused.Status == 403
	case errors.As(err, &unanswered):
		status = unanswered.status
	}
	return status >= 400 && status < 500 && status != 408 && status != 429 && !isOfToken
}
