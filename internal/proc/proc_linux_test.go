package proc

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func pidsOf(ps []Process) []int {
	var pids []int
	for _, p := range ps {
		pids = append(pids, p.Pid)
	}
	slices.Sort(pids)
	return pids
}

// waitDead waits for the end of a process that need not be our child.
func waitDead(t *testing.T, pid int) {
	t.Helper()
	s, ok := readStat(pid)
	if !ok || s.dead {
		return
	}
	held, err := pinAll([]Process{s.Process}, func(Process) bool { return true })
	defer held.close()
	if err == nil {
		err = held.wait(within(t))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (odd ) (name) S 7 8 9 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 123456 1 2 3"
	s, ok := parseStat(line)
	want := stat{Process: Process{42, "123456", "odd ) (name"}, parent: 7, group: 8, session: 9}
	if !ok || s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	zombie := strings.Replace(line, " S 7", " Z 7", 1)
	if s, _ := parseStat(zombie); s.dead {
		t.Error("a dead leader with living threads is taken for dead")
	}
	if s, _ := parseStat(strings.Replace(zombie, " 20 0 3 ", " 20 0 1 ", 1)); !s.dead {
		t.Error("a zombie is taken for alive")
	}
	// What follows 123456 is the memory's size, and as the 29th the environment's end.
	whole := strings.TrimSuffix(line, " 1 2 3") + " 4096" + strings.Repeat(" 1", 27) + " 777 0"
	if s, ok := parseStat(whole); !ok || !s.memory || s.envEnd != "777" {
		t.Errorf("got %+v", s)
	}
	if s, ok := parseStat(strings.Replace(whole, " 4096 ", " 0 ", 1)); !ok || s.memory {
		t.Errorf("got %+v", s)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 1 2", "x (x) S" + strings.Repeat(" 1", 30)} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q is taken for a stat line", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("42 (odd ) (name) S 7 8 9 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 123456 1 2 3")
	f.Add(")(")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseStat(text); ok && !strings.Contains(text, "("+s.Name+")") {
			t.Errorf("%q: name %q", text, s.Name)
		}
	})
}

// The wrapper is killed; the server it hid lives on in a session of its own, with a
// command in a third one (PROTOCOL.md). Both come to us and are found.
func TestKillDescendants(t *testing.T) {
	if err := Subreap(); err != nil {
		t.Fatal(err)
	}
	spared, _ := start(t, "exec sleep 600", nil)
	wrapper, out := start(t, `setsid sh -c 'echo $$; setsid sh -c "echo \$\$; exec sleep 600" & wait' & wait`, nil)
	server, command := readPid(t, out), readPid(t, out)
	wrapper.Stop(nil, wrapper.Send(syscall.SIGKILL, 10*time.Second))
	if s, _ := readStat(server); s.dead || s.parent != os.Getpid() {
		t.Fatalf("the orphan %d was not adopted: %+v", server, s)
	}
	killed, err := KillDescendants(within(t), spared.Pid())
	if err != nil {
		t.Fatal(err)
	}
	want := []int{server, command}
	slices.Sort(want)
	if !slices.Equal(pidsOf(killed), want) {
		t.Errorf("killed %v, want %v", pidsOf(killed), want)
	}
	eofOf(t, out)
	for _, pid := range want {
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("process %d was not reaped: %v", pid, err)
		}
	}
	if !Alive(spared.Pid(), spared.Started()) {
		t.Error("the spared child was killed")
	}
	if again, err := KillDescendants(within(t), spared.Pid()); len(again) != 0 || err != nil {
		t.Errorf("a second time: %v, %v", again, err)
	}
}

func TestDescendants(t *testing.T) {
	table := []stat{
		{Process: Process{Pid: 2}, parent: 1},
		{Process: Process{Pid: 5}, parent: 3}, // before its parent
		{Process: Process{Pid: 3}, parent: 2},
		{Process: Process{Pid: 4}, parent: 2, dead: true},
		{Process: Process{Pid: 6}, parent: 1},
		{Process: Process{Pid: 7}, parent: 6},
		{Process: Process{Pid: 9}, parent: 8},
	}
	if got := pidsOf(descendants(table, 1, []int{6})); !slices.Equal(got, []int{2, 3, 5}) {
		t.Errorf("got %v", got)
	}
}

// A process that forks all the time is caught, since the look is repeated.
func TestKillDescendantsOutrunsForks(t *testing.T) {
	if err := Subreap(); err != nil {
		t.Fatal(err)
	}
	c, out := start(t, `hop() { echo hop; (hop) & exit; }; hop`, func(s *Spec) { s.Leave = true })
	for range 20 {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	go drain(out)
	if _, err := KillDescendants(within(t)); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if table, err := readTable(); err != nil || len(descendants(table, os.Getpid(), nil)) != 0 {
		t.Errorf("left: %v, %v", descendants(table, os.Getpid(), nil), err)
	}
}

func drain(r *bufio.Reader) {
	for {
		if _, err := r.ReadByte(); err != nil {
			return
		}
	}
}

// An orphan that dies while children run is reaped without anybody asking.
func TestOrphansAreReaped(t *testing.T) {
	if err := Subreap(); err != nil {
		t.Fatal(err)
	}
	parent, out := start(t, `setsid sh -c 'echo $$; exec sleep 600' & read wait <&3; exit 0`, func(s *Spec) {
		s.Extra = []*os.File{endless(t)}
	})
	orphan := readPid(t, out)
	parent.Stop(nil, parent.Send(syscall.SIGKILL, 10*time.Second))
	if err := syscall.Kill(orphan, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitDead(t, orphan)
	other, _ := start(t, "true", nil)
	<-other.Done() // every end of a child is an occasion
	if _, ok := readStat(orphan); ok {
		t.Error("the orphan is still a zombie")
	}
}

func TestTickerReapsAndEnds(t *testing.T) {
	r := registry{known: map[int]*Child{}, subreaper: true}
	c := &Child{pid: -1}
	r.known[c.pid] = c
	r.tick()
	running := r.ticker
	if running == nil {
		t.Fatal("no ticker while a child is known")
	}
	if r.tick(); r.ticker != running {
		t.Error("a second ticker was started")
	}
	r.forget(c)
	if !ended(running.gone) || r.ticker != nil {
		t.Error("the ticker outlives the last child")
	}
}

func TestOwnChildren(t *testing.T) {
	c, _ := start(t, "exec sleep 600", nil)
	if !slices.Contains(ownChildren(), c.Pid()) {
		t.Errorf("%d is not among %v", c.Pid(), ownChildren())
	}
	if !slices.Contains(childrenByTable(os.Getpid()), c.Pid()) {
		t.Errorf("%d is not among %v", c.Pid(), childrenByTable(os.Getpid()))
	}
}

func TestSweep(t *testing.T) {
	mark := "PROC_TEST_MARK=" + t.Name() + strconv.Itoa(os.Getpid())
	marked := func(s *Spec) { s.Env = append(s.Env, mark) }
	// The child that escapes the group and the session cannot escape its environment.
	leader, out := start(t, `setsid sh -c 'echo $$; exec sleep 600' & wait`, marked)
	escaped := readPid(t, out)
	other, _ := start(t, "exec sleep 600", func(s *Spec) { s.Env = append(s.Env, mark+"-other") })

	asked := map[string]int{}
	killed, err := Sweep(within(t), func(env func(string) string) bool {
		got := "PROC_TEST_MARK="+env("PROC_TEST_MARK") == mark
		if got {
			asked[env("PATH")]++
		}
		return got
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []int{leader.Pid(), escaped}
	slices.Sort(want)
	if !slices.Equal(pidsOf(killed), want) {
		t.Errorf("killed %v, want %v", pidsOf(killed), want)
	}
	for _, n := range asked {
		if n < 2*len(want) {
			t.Errorf("asked %d times about %d processes: the environment was not read again", n, len(want))
		}
	}
	<-leader.Done()
	eofOf(t, out)
	if !Alive(other.Pid(), other.Started()) {
		t.Error("a process with another mark was killed")
	}
}

// What matched at first and does not when it is pinned is somebody else by now.
func TestSweepAsksAgain(t *testing.T) {
	c, out := start(t, "echo $$; exec sleep 600", func(s *Spec) { s.Env = append(s.Env, "PROC_TEST_MARK=again") })
	readPid(t, out)
	asked := 0
	killed, err := Sweep(within(t), func(env func(string) string) bool {
		if env("PROC_TEST_MARK") != "again" {
			return false
		}
		asked++
		return asked == 1
	})
	if err != nil || len(killed) != 0 || asked < 2 || !Alive(c.Pid(), c.Started()) {
		t.Errorf("killed %v, asked %d times, %v", killed, asked, err)
	}
}

func TestSweepIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, out := start(t, "echo $$; exec sleep 600", func(s *Spec) { s.Env = append(s.Env, "PROC_TEST_MARK=bound") })
	readPid(t, out)
	calls := 0
	_, err := Sweep(ctx, func(env func(string) string) bool {
		if env("PROC_TEST_MARK") != "bound" {
			return false
		}
		if calls++; calls == 6 {
			cancel()
		}
		return calls%2 == 1 // found each time, and each time another when it is pinned
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestKillGroup(t *testing.T) {
	c, out := start(t, `sh -c 'trap "echo bye; exit" TERM; echo ready; while :; do sleep 0.05; done' &
sleep 600 & read wait <&3`, func(s *Spec) {
		s.Session, s.Leave, s.Extra = true, true, []*os.File{endless(t)}
	})
	if line, _ := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q", line)
	}
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil { // the leader only
		t.Fatal(err)
	}
	<-c.Done()
	killed, err := c.KillGroup(within(t), 0)
	if err != nil || len(killed) < 2 {
		t.Errorf("killed %v, %v", killed, err)
	}
	eofOf(t, out)
	if killed, err := c.KillGroup(within(t), time.Hour); err != nil || len(killed) != 0 {
		t.Errorf("a second time: %v, %v", killed, err)
	}
}

// The lock belongs to the open file: its taker is dead, and two processes hold it.
func TestHoldersAfterTheLockersDeath(t *testing.T) {
	dir := t.TempDir()
	path, free := filepath.Join(dir, "lock"), filepath.Join(dir, "free")
	lock, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	unlocked, err := os.Create(free)
	if err != nil {
		t.Fatal(err)
	}
	defer unlocked.Close()
	if none, err := Holders(path); err != nil || len(none) != 0 {
		t.Errorf("before anybody locks: %v, %v", none, err)
	}

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	locker, _ := start(t, "", func(s *Spec) {
		s.Argv, s.Extra = []string{exe}, []*os.File{lock}
		s.Env, s.Stderr = append(s.Env, roleName+"=take-lock"), os.Stderr
	})
	<-locker.Done()
	if !locker.Exit().Success() {
		t.Fatal(locker.Exit())
	}
	heir, out := start(t, "echo $$; exec sleep 600", func(s *Spec) { s.Extra = []*os.File{lock} })
	readPid(t, out)

	held, err := HoldersOf([]string{path, free, filepath.Join(dir, "missing")})
	if err != nil {
		t.Fatal(err)
	}
	want := []int{os.Getpid(), heir.Pid()}
	slices.Sort(want)
	if !slices.Equal(pidsOf(held[path]), want) || len(held) != 1 {
		t.Errorf("got %v, want %v", held, want)
	}
	if err := syscall.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if none, err := Holders(path); err != nil || len(none) != 0 {
		t.Errorf("after the unlock: %v, %v", none, err)
	}
}

// A process on its way out has no environment any more and may still hold a lock: a
// sweep must not take it for somebody else's.
func TestParseStatTellsExiting(t *testing.T) {
	line := func(state, flags string) string {
		return "7 (a) b) " + state + " 1 7 7 0 -1 " + flags + " 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0" + strings.Repeat(" 0", 28)
	}
	for _, tt := range []struct {
		state, flags  string
		exiting, dead bool
	}{
		{"S", "4194304", false, false},
		{"D", "4194308", true, false},
		{"R", "4", true, false},
		{"Z", "4194308", false, true},
	} {
		s, ok := parseStat(line(tt.state, tt.flags))
		if !ok || s.exiting != tt.exiting || s.dead != tt.dead || s.Name != "a) b" || s.Started != "4711" {
			t.Errorf("state %s, flags %s: %+v, %t", tt.state, tt.flags, s, ok)
		}
	}
}

// With a child below us, also one that has stopped, the process table is looked at; without
// one it need not be.
func TestChildless(t *testing.T) {
	if !childless() {
		t.Error("a test has left a child")
	}
	c, err := Start(Spec{Argv: []string{"/bin/sh", "-c", "kill -STOP $$"}})
	if err != nil {
		t.Fatal(err)
	}
	if childless() {
		t.Error("the child is not seen")
	}
	if killed, err := KillDescendants(within(t)); err != nil || len(killed) != 1 || killed[0].Pid != c.Pid() {
		t.Errorf("killed %v, %v", killed, err)
	}
	<-c.Done()
	if !childless() {
		t.Error("a child that was waited for is still seen")
	}
}
