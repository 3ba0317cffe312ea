package linger

import (
	"context"
	"errors"
	"time"
)

// holderKey is that of the holder in the context of a handler.
type holderKey struct{}

// holder is what a handler has of its reservation.
type holder struct {
	client      *Client
	id, receipt string
	ttr         time.Duration
}

// SetNote says in 1 to 256 bytes how far a handler is with its job, whose context ctx is or is made of. The note is shown to
// operators, and the next attempt gets it as Job.Note. It is sent at once, by a touch, and fails as that does.
func SetNote(ctx context.Context, note string) error {
	of, isHolder := ctx.Value(holderKey{}).(holder)
	if !isHolder {
		return errors.New("SetNote needs the context of a handler")
	}
	return of.client.TouchWithNote(ctx, of.id, of.receipt, of.ttr, note)
}

// attempt runs one job, which a call sent at sent has reserved.
func (r *run) attempt(given *Job, sent time.Time) {
	job := *given // the handler may change what it is given
	ctx, cancel := context.WithCancel(context.WithValue(r.handlers, holderKey{}, holder{r.Client, job.ID, job.Receipt, r.TTR}))
	defer cancel()
	lease := job.TTR
	if r.TTR > 0 {
		lease = r.TTR
	}
	done := make(chan outcome, 1)
	arrived, renewed, isStarted, isLost := time.Now(), sent, false, false
	// Whether the server says that the reservation timed out and no worker has had the job since. A finish still counts.
	isTimedOut := false
	// Whether a newer version of the job waits until this reservation ends.
	isReplaced := false
	// When a heartbeat was sent although the reservation was over, because the process was stopped meanwhile. Zero without one.
	askedLate := time.Time{}
	beat := r.heartbeats.plan(&job, lease, renewed, lease/3)
	// The answer to a long poll may be old. The job is started once the reservation is known to last.
	start := func() {
		isStarted = true
		go func() { done <- r.handle(ctx, given) }()
	}
	lose := func(err error) {
		isLost, isReplaced = true, Code(err) == "job_replaced"
		r.heartbeats.drop(beat)
		cancel()
		r.event("lost", given, err)
	}
	if since(renewed) < lease/3 {
		start()
	}
	for isStarted || !isLost {
		if !isLost && since(beat.from) >= beat.wait {
			if sent := r.heartbeats.send(beat); askedLate.IsZero() && between(renewed, sent) >= lease {
				askedLate = sent
			}
		}
		select {
		case ended := <-done:
			r.heartbeats.drop(beat)
			if isReplaced {
				r.giveWay(&job, lease-since(renewed))
			}
			if !isLost {
				rest := lease - since(renewed)
				if isTimedOut {
					rest = lease
				}
				if event, err := r.report(&job, ended, rest); err != nil {
					r.event(event, given, err)
				}
			}
			return
		case touch := <-beat.answer:
			switch said := reservationAfter(touch.err); {
			case isLost:
			case said == reservationRenewed:
				renewed, askedLate = touch.sent, time.Time{}
				beat = r.heartbeats.plan(&job, lease, renewed, lease/3)
				if !isStarted {
					start()
				}
			case said == reservationGone || said == reservationTimedOut && !isStarted:
				lose(touch.err)
			default:
				isTimedOut = isTimedOut || said == reservationTimedOut
				beat = r.heartbeats.plan(&job, lease, time.Now(), touchPause(lease))
			}
		case <-time.After(shorter(longestWait, lease/60)):
		}
		passed, isOver := since(renewed), false
		switch {
		case !isStarted:
			isOver = since(arrived) >= lease
		case passed >= lease:
			// The process was stopped beyond the end of the reservation: the server is asked first.
			isOver = !askedLate.IsZero() && since(askedLate) >= touchLimit(lease)
		default:
			isOver = passed >= lease*9/10
		}
		if isOver && !isLost && !isTimedOut {
			lose(errors.New("no heartbeat got through"))
		}
	}
	if isReplaced {
		r.giveWay(&job, lease-since(renewed))
	}
}

// giveWay releases a job that was replaced. The server refuses that, and ends the reservation by it, so that the newer version need
// not wait for the TTR.
func (r *run) giveWay(job *Job, rest time.Duration) {
	_, _ = r.report(job, outcome{"release", map[string]any{"delay": "0ms", "reason": "replaced"}}, rest)
}

// touchPause is how long the worker waits after a heartbeat that failed.
func touchPause(lease time.Duration) time.Duration {
	return longer(shorter(lease/30, 5*time.Second), 50*time.Millisecond)
}

// report tells the server how a job ended, until it answers or the rest of the reservation is over. It returns the event of a
// report that failed, and why. Each report is a call of its own: it is sent when its job ends, and would have to wait for others.
func (r *run) report(job *Job, ended outcome, rest time.Duration) (string, error) {
	ended.fields["receipt"] = job.Receipt
	reports := r.reports
	if reports.Err() != nil {
		// The last reports are over. The server may answer all the same, so that this one is sent, too.
		ctx, cancel := context.WithTimeout(withoutCancel{reports}, lastReports)
		defer cancel()
		reports = ctx
	}
	err := r.Client.hold(reports, job.ID, ended.step, ended.fields, &rest)
	var refused *RefusedError
	switch code := Code(err); {
	case err == nil || ended.step == "finish" && code == "job_not_found":
		return "", nil
	// What gave the job back may be an earlier try of this report.
	case ended.step != "finish" && wasRepeated(err) && (code == "lease_lost" || code == "not_reserved"):
		return "", nil
	case isGone(code):
		return "late", err
	case errors.As(err, &refused):
		return "refused", err
	}
	return "unanswered", err
}

// since is the time since a moment.
func since(moment time.Time) time.Duration { return between(moment, time.Now()) }

// between is the time between two moments. The wall clock counts the time in suspend, too, which the other one leaves out.
func between(from, to time.Time) time.Duration {
	return longer(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
