package remote

import (
	"bytes"
	"container/list"
	"io"
	"maps"
	"net/http"
	"sync"
)

// Cache asks with If-None-Match for what it has, so that an answer that did not change
// costs neither its bytes nor, with most services, a piece of the quota. It keeps
// nothing that the server has not just confirmed from being asked for again.
type Cache struct {
	Base http.RoundTripper
	Max  int // bytes of bodies; the longest unused ones go first

	mu    sync.Mutex
	size  int
	order list.List // of *kept, the last used in front
	byURL map[string]*list.Element
}

// kept is one answer. Its members never change.
type kept struct {
	url    string
	etag   string
	header http.Header
	body   []byte
}

// RoundTrip implements http.RoundTripper. A body of Base is read whole. A request with a
// condition of its own goes by.
func (c *Cache) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Header.Get("If-None-Match") != "" || asIs.on(req.Context()) {
		return c.Base.RoundTrip(req)
	}
	url := req.URL.String()
	old := c.find(url)
	if old != nil {
		req = req.Clone(req.Context())
		req.Header.Set("If-None-Match", old.etag)
	}
	res, err := c.Base.RoundTrip(req)
	switch {
	case err != nil:
		return nil, err
	case old != nil && res.StatusCode == http.StatusNotModified:
		res.Body.Close()
		return old.answer(res), nil
	case res.StatusCode == http.StatusOK && res.Header.Get("ETag") != "":
		return res, c.keep(url, res)
	}
	return res, nil
}

// answer is the kept answer with what the confirming one says anew: the quota.
func (k *kept) answer(res *http.Response) *http.Response {
	header := k.header.Clone()
	maps.Copy(header, res.Header)
	out := *res
	out.StatusCode, out.Status = http.StatusOK, "200 OK"
	out.Header = header
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(k.body)), int64(len(k.body))
	return &out
}

func (c *Cache) find(url string) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byURL[url]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*kept)
}

func (c *Cache) keep(url string, res *http.Response) error {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byURL == nil {
		c.byURL = map[string]*list.Element{}
	}
	if e := c.byURL[url]; e != nil {
		c.drop(e)
	}
	if len(body) > c.Max {
		return nil
	}
	c.byURL[url] = c.order.PushFront(&kept{url: url, etag: res.Header.Get("ETag"), header: res.Header.Clone(), body: body})
	for c.size += len(body); c.size > c.Max; {
		c.drop(c.order.Back())
	}
	return nil
}

func (c *Cache) drop(e *list.Element) {
	k := c.order.Remove(e).(*kept)
	delete(c.byURL, k.url)
	c.size -= len(k.body)
}
