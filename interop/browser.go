package interop

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// browserLimit is how long a browser may take over one thing, on a machine that does much else.
const browserLimit = 2 * time.Minute

// browserNeeds are for the test of the page for people.
func browserNeeds() []Need {
	return []Need{{"chromium", "loads the page for people", command("chromium")}}
}

// Browser is a headless Chromium with one open page. It is spoken to over two pipes, so it opens no port; the answers are waited
// for, so nothing depends on how long it takes to draw.
type Browser struct {
	cmd     *exec.Cmd
	to      io.WriteCloser
	answers chan browserAnswer
	session string
	number  int
	log     bytes.Buffer
}

// browserAnswer is an answer, or an event, which has no number.
type browserAnswer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// StartBrowser starts a browser and has it open an address. The folder is for what it keeps.
func StartBrowser(dir, address string) (*Browser, error) {
	hear, toUs, err := os.Pipe() // it reads what we write
	if err != nil {
		return nil, err
	}
	fromIt, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &Browser{to: toUs, answers: make(chan browserAnswer)}
	b.cmd = exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "--window-size=1280,1000", "about:blank")
	b.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
	b.cmd.ExtraFiles = []*os.File{hear, say} // they become 3 and 4
	b.cmd.Stderr = &b.log
	err = b.cmd.Start()
	hear.Close()
	say.Close()
	if err != nil {
		return nil, fmt.Errorf("chromium: %w", err)
	}
	go b.read(fromIt)
	var target struct {
		ID string `json:"targetId"`
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	if err = b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target); err == nil {
		err = b.ask("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session)
	}
	if b.session = session.ID; err == nil {
		err = b.ask("Page.navigate", map[string]any{"url": address}, nil)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// read passes on what the browser says until its pipe ends; messages end with a byte of 0.
func (b *Browser) read(from io.ReadCloser) {
	defer from.Close()
	defer close(b.answers)
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadBytes(0)
		if err != nil {
			return
		}
		var a browserAnswer
		if json.Unmarshal(text[:len(text)-1], &a) == nil && a.ID != 0 {
			b.answers <- a
		}
	}
}

// ask sends one command and reads its answer into result, unless that is nil.
func (b *Browser) ask(method string, params map[string]any, result any) error {
	b.number++
	q := map[string]any{"id": b.number, "method": method, "params": params}
	if b.session != "" {
		q["sessionId"] = b.session
	}
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return fmt.Errorf("chromium: %s: %w: %s", method, err, lastLines(b.log.Bytes(), 5))
	}
	select {
	case a, open := <-b.answers:
		switch {
		case !open:
			return fmt.Errorf("chromium: %s: it has ended: %s", method, lastLines(b.log.Bytes(), 5))
		case a.Error != nil || a.ID != b.number:
			return fmt.Errorf("chromium: %s: answer %d: %+v", method, a.ID, a.Error)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-time.After(browserLimit):
		return fmt.Errorf("chromium: %s: no answer within %v", method, browserLimit)
	}
}

// Value is what an expression in the page comes to, as text.
func (b *Browser) Value(expression string) (string, error) {
	var got struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Exception any `json:"exceptionDetails"`
	}
	err := b.ask("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "returnByValue": true}, &got)
	if err == nil && got.Exception != nil {
		err = fmt.Errorf("%s: %v", expression, got.Exception)
	}
	return fmt.Sprint(got.Result.Value), err
}

// Dress has the page believe that its reader likes it "dark" or "light".
func (b *Browser) Dress(scheme string) error {
	return b.ask("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// Picture is the whole page as a PNG.
func (b *Browser) Picture() ([]byte, error) {
	var got struct {
		Data string `json:"data"`
	}
	if err := b.ask("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &got); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(got.Data)
}

// Close ends the browser.
func (b *Browser) Close() error {
	_ = b.to.Close() // it ends with its pipe; and if it does not:
	ended := make(chan error, 1)
	go func() {
		for range b.answers { // so that the reader ends
		}
		ended <- b.cmd.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(10 * time.Second):
		_ = b.cmd.Process.Kill()
		<-ended
		return nil
	}
}
