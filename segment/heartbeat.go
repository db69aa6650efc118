package segment

import (
	"context"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// keepMounted brings the segment into the pool and keeps it there: mount once, then a ping at every interval. It ends
// with the context only.
func (d *Daemon) keepMounted(ctx context.Context) {
	if !d.mountFirst(ctx) {
		return
	}
	tick := time.NewTicker(d.cfg.PingEvery)
	defer tick.Stop()
	silent := false
	for {
		_, reign, _ := d.leader.now() // without a master the ping fails
		if was := silent; d.silenced(time.Now()) != was {
			silent = !was
			d.tellSilence(silent)
		}
		if silent {
			d.count.pingsWithheld.Add(1)
		} else {
			d.ping(ctx, reign)
		}
		select {
		case <-ctx.Done():
			return
		case <-reign.Done(): // the next leader hears of this segment at once
		case <-tick.C:
		}
	}
}

func (d *Daemon) tellSilence(silent bool) {
	if silent {
		d.log.Warn("withholding pings until an RDMA device carries traffic, so that the master places nothing here (--rails_down=silent)")
		return
	}
	d.log.Info("pinging again")
}

// mountFirst publishes and mounts until both have worked. A master that refuses is asked again like one that is away: a
// refusal may pass, as when it still holds an earlier client of this segment.
func (d *Daemon) mountFirst(ctx context.Context) bool {
	pause := limits.SegmentBackoffMinMs * time.Millisecond
	said := ""
	for {
		_, reign, _ := d.leader.now() // without a master the call fails
		err := d.publish(ctx)
		if err == nil {
			err = d.mountAll(ctx)
		}
		if err == nil {
			d.health.mounted()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if text := err.Error(); text != said {
			said = text
			d.log.Warn("not mounted yet, trying on", zap.String("master", d.cfg.MasterAddress), zap.Error(err))
		}
		if _, no := refused(err); no {
			pause = limits.SegmentBackoffMaxMs * time.Millisecond
		}
		if !sleepOver(ctx, reign, pause) {
			return false
		}
		pause = min(2*pause, limits.SegmentBackoffMaxMs*time.Millisecond)
	}
}

// mountAll mounts every extent. One that is mounted already stays as it is.
func (d *Daemon) mountAll(ctx context.Context) error {
	for _, x := range d.all() {
		if err := d.mount(ctx, x); err != nil {
			return err
		}
		d.log.Info("segment mounted", zap.String("segment", x.state.Name), zap.String("endpoint", x.state.Endpoint),
			zap.String("client", x.state.ClientID), zap.Uint64("size_bytes", x.state.Size))
	}
	return nil
}

func (d *Daemon) mount(ctx context.Context, x *extent) error {
	_, err := call(ctx, d.control, &wire.MountSegment, &wire.MountSegmentRequest{Segment: x.segment(), ClientID: d.clientID})
	return err
}

// ping tells the master that the segment lives. What the answer asks for is done elsewhere, so that the next ping is
// never late.
func (d *Daemon) ping(ctx, reign context.Context) {
	answer, err := call(ctx, d.control, &wire.Ping, &wire.PingRequest{ClientID: d.clientID})
	if err != nil {
		if ctx.Err() != nil || reign.Err() != nil { // another master leads and is asked at once
			return
		}
		d.count.pinged(false)
		if d.health.lost() {
			d.log.Warn("master does not answer, trying on", zap.String("master", d.cfg.MasterAddress), zap.Error(err))
		}
		return
	}
	d.count.pinged(true)
	if d.health.found() {
		d.log.Info("master answers again", zap.String("master", d.cfg.MasterAddress))
	}
	if answer.ClientStatus == wire.ClientStatusNeedRemount {
		select {
		case d.remountWanted <- struct{}{}:
		default: // one is under way, and the next ping asks again
		}
	}
}

// remountWhenAsked offers the segment again each time the master says that it does not know this client. With a
// metadata server the keys are written again first: the master may have had them removed.
func (d *Daemon) remountWhenAsked(ctx context.Context) {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.remountWanted:
		}
		err := d.publish(ctx)
		if err == nil {
			_, err = call(ctx, d.control, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: d.segments(), ClientID: d.clientID})
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			said = ""
			d.count.remounts.Add(1)
			d.health.mounted()
			d.log.Info("segment remounted", zap.String("segment", d.state.Name), zap.String("client", d.state.ClientID))
		default:
			d.count.remountsFailed.Add(1)
			d.health.unmounted()
			if text := err.Error(); text != said {
				said = text
				d.log.Warn("cannot remount, trying on", zap.String("segment", d.state.Name), zap.Error(err))
			}
		}
	}
}

// segments are what the master is told of, all at once.
func (d *Daemon) segments() (list []wire.Segment) {
	for _, x := range d.all() {
		list = append(list, x.segment())
	}
	return list
}

// sleepOver waits, but no longer than a master leads, and reports whether the context still lives.
func sleepOver(ctx, reign context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-reign.Done():
	case <-t.C:
	}
	return true
}

// sleep waits and reports whether the context still lives.
func sleep(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
