package linear

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
)

// credentialed returns base with the credential added to what goes to Linear. A token
// that is minted joins the secrets.
func (c *config) credentialed(base http.RoundTripper, secrets *remote.Secrets) http.RoundTripper {
	if c.key != "" {
		return &signed{base: base, endpoint: c.endpoint, credential: func(context.Context) (string, error) { return c.key, nil }}
	}
	app := &application{base: base, secrets: secrets, config: clientcredentials.Config{
		ClientID: c.clientID, ClientSecret: c.clientSecret, TokenURL: c.tokenURL,
		// Linear wants its scopes with commas, where OAuth has blanks.
		Scopes: []string{"read,write"}, AuthStyle: oauth2.AuthStyleInParams,
	}}
	return &signed{base: base, endpoint: c.endpoint, credential: app.credential}
}

// signed adds a credential to each request to the endpoint, and to no other: a redirect
// elsewhere does not get it.
type signed struct {
	base       http.RoundTripper
	endpoint   string
	credential func(context.Context) (string, error) // the whole value of Authorization
}

// RoundTrip implements http.RoundTripper.
func (s *signed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.String() != s.endpoint {
		return s.base.RoundTrip(req)
	}
	credential, err := s.credential(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", credential)
	return s.base.RoundTrip(req)
}

// application mints the tokens of an OAuth application and renews them. Nobody else
// gets to see them.
type application struct {
	base    http.RoundTripper
	secrets *remote.Secrets
	config  clientcredentials.Config

	mu    sync.Mutex
	token *oauth2.Token
}

// mintTimeout bounds the wait for one token.
const mintTimeout = 30 * time.Second

func (a *application) credential(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.token.Valid() {
		token, err := a.config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: a.base, Timeout: mintTimeout}))
		if err != nil {
			return "", a.mintError(err)
		}
		a.secrets.Add(token.AccessToken)
		a.token = token
	}
	return "Bearer " + a.token.AccessToken, nil
}

// mintError is the error of a token that was not given. The answer's own words are left
// out: they may repeat what was sent.
func (a *application) mintError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return err
	}
	status := refused.Response.StatusCode
	e := tracker.Errorf(tracker.Denied, "Linear gave no token for the application: status %d (%s)", status, a.secrets.Preview(refused.ErrorCode))
	if status >= http.StatusInternalServerError {
		e.Category = tracker.Unavailable
	}
	return e
}
