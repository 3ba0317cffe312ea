package linger

import (
	"context"
	"errors"
	"time"
)

// attempt runs one job, which a call sent at sent has reserved.
func (r *run) attempt(given *Job, sent time.Time) {
	job := *given // the handler may change what it is given
	ctx, cancel := context.WithCancel(r.handlers)
	defer cancel()
	lease := job.TTR
	if r.TTR > 0 {
		lease = r.TTR
	}
	done := make(chan outcome, 1)
	arrived, renewed, isStarted, isLost := time.Now(), sent, false, false
	beat := r.heartbeats.plan(&job, lease, renewed, lease/3)
	// The answer to a long poll may be old. The job is started once the reservation is known to last.
	start := func() {
		isStarted = true
		go func() { done <- r.handle(ctx, given) }()
	}
	lose := func(err error) {
		isLost = true
		r.heartbeats.drop(beat)
		cancel()
		r.event("lost", given, err)
	}
	if since(renewed) < lease/3 {
		start()
	}
	for isStarted || !isLost {
		if !isLost && since(beat.from) >= beat.wait {
			r.heartbeats.send(beat)
		}
		select {
		case ended := <-done:
			r.heartbeats.drop(beat)
			if !isLost {
				if event, err := r.report(&job, ended, lease-since(renewed)); err != nil {
					r.event(event, given, err)
				}
			}
			return
		case touch := <-beat.answer:
			switch {
			case isLost:
			case touch.err == nil:
				renewed = touch.sent
				beat = r.heartbeats.plan(&job, lease, renewed, lease/3)
				if !isStarted {
					start()
				}
			case isGone(touch.err):
				lose(touch.err)
			default:
				pause := longer(shorter(lease/30, 5*time.Second), 50*time.Millisecond)
				beat = r.heartbeats.plan(&job, lease, time.Now(), pause)
			}
		case <-time.After(shorter(longestWait, lease/60)):
		}
		isOver := isStarted && since(renewed) >= lease*9/10 || !isStarted && since(arrived) >= lease
		if isOver && !isLost {
			lose(errors.New("no heartbeat got through"))
		}
	}
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
	case code == "job_not_found" || code == "lease_lost" || code == "not_reserved":
		return "late", err
	case errors.As(err, &refused):
		return "refused", err
	}
	return "unanswered", err
}

// since is the time since a moment. The wall clock counts the time in suspend, too, which the other one leaves out.
func since(moment time.Time) time.Duration {
	now := time.Now()
	return longer(now.Sub(moment), now.Round(0).Sub(moment.Round(0)))
}
