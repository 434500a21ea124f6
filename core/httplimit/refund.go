package httplimit

import (
	"context"
	"net/http"
)

// Run runs next, which returns the status that the request was answered with,
// and settles the call by it. A panic counts as 500 and goes on.
func (m *Middleware[C, H]) Run(c C, o Outcome, next func() int) {
	status := http.StatusInternalServerError
	defer func() { m.Settle(c, o, status) }()
	status = next()
}

// Settle gives the tokens of a Refundable call back, to the store that charged
// them, if Config.Refund says so for the status. It does so even if the client
// has gone by now, within the store's own budget. A failure is the observer's to
// report: the response is not affected.
func (m *Middleware[C, H]) Settle(c C, o Outcome, status int) {
	if !o.Refundable || status == http.StatusSwitchingProtocols || !m.config.Refund(c, status) {
		return
	}
	ctx := context.WithoutCancel(m.request(c).context())
	_ = o.limiter.RefundResult(ctx, o.Result)
}
