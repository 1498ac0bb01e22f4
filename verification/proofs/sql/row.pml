/*
  One row that several processes change by comparing its version: README.md explains the words and the properties.

 * Time is counted in ticks; a window has two. A state is what the limit has spent in one window.
*/
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef QUOTA
#define QUOTA 2
#endif
#ifndef TICKS
#define TICKS 4
#endif
#ifndef ASKS
#define ASKS 4
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef RESETS
#define RESETS 0
#endif
#ifndef EVICTS
#define EVICTS 0
#endif
#ifndef SWEEPS
#define SWEEPS 1
#endif

/* What a process is doing. READ: a read is on its way to the server. TOLD: its answer is on the way back. WRITE: a
   write is on its way. WON: it was carried out. */
#define IDLE 0
#define READ 1
#define TOLD 2
#define WRITE 3
#define WON 4

#define CONSUME 1
#define RESET 2

#define ENDOF(t) ((t) / 2 * 2 + 2)

/* `end`: the tick at which the window of `spent` is over. */
typedef Content {
  byte spent;
  byte end;
  byte expires;   /* the row may be swept afterwards */
};
typedef Row { bool present; byte version; Content s };
Row row;
byte clock;

/* A statement: U on the first try, W on a later one. */
typedef Statement {
  bool alive;
  bool under;      /* W: who loses gets the newest row, which it has locked */
  byte kind;
  byte expected;   /* 0: no row */
  byte version;
  byte moment;
  byte until;
  Content s;
};
Statement sent[PROCESSES];
/* Those whose process has given up: the server may carry them out later. */
Statement late[PROCESSES];

typedef Process {
  byte doing;
  byte kind;
  bool knows;
  byte version;    /* of the row that it knows; 0: none */
  Content s;
  byte last;       /* the server's clock in the newest answer */
  bool sure;       /* it has just read what it knows */
  byte askedAt;
#if MUTANT_SAME_VERSION_AGAIN
  byte unsure;     /* the version of a write without an answer */
#endif
  bool evicted;    /* it has too many rows to remember this one: it forgets it after what it does now */
  bool wasFull;    /* really: at some moment since it asked, nothing was left */
  bool wasUnused;  /* really: at some moment since it asked, nothing was spent */
  bool written;    /* really: its write was carried out */
};
Process p[PROCESSES];

/* What really happened: units of this window and of the one before since the last reset. */
byte committed, before, asks, lost, resets, sweeps;
byte i, fresh;

#define KEPT (row.present && clock < row.s.end -> row.s.spent : 0)

inline copyState(to, from) {
  to.spent = from.spent; to.end = from.end; to.expires = from.expires
}
inline forgetState(s_) { s_.spent = 0; s_.end = 0; s_.expires = 0 }
inline forget(q) { p[q].knows = false; p[q].version = 0; forgetState(p[q].s) }
inline forgetStatement(x) {
  x.alive = false; x.under = false; x.kind = 0; x.expected = 0; x.version = 0; x.moment = 0; x.until = 0; forgetState(x.s)
}
inline rest(q) {
  p[q].doing = IDLE; p[q].kind = 0; p[q].sure = false; p[q].askedAt = 0; p[q].wasFull = false; p[q].wasUnused = false; p[q].written = false;
  forgetStatement(sent[q]);
  if
  :: p[q].evicted -> forget(q); p[q].evicted = false
  :: else
  fi
}

/* A version that nobody remembers: in the code, a random start for each process and one more for each write. */
#define NAMES(n) (p[n].version == fresh || sent[n].version == fresh || sent[n].expected == fresh || late[n].version == fresh || late[n].expected == fresh)
inline findVersion() {
  fresh = 1;
  i = 0;
  do
  :: i < PROCESSES && (NAMES(i) || row.version == fresh) -> fresh++; i = 0
  :: i < PROCESSES && !(NAMES(i) || row.version == fresh) -> i++
  :: else -> break
  od;
  i = 0
}

inline look() {
  i = 0;
  do
  :: i < PROCESSES ->
    if
    :: p[i].doing != IDLE && KEPT >= QUOTA -> p[i].wasFull = true
    :: p[i].doing != IDLE && KEPT == 0 -> p[i].wasUnused = true
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0
}

inline check() {
  assert(KEPT >= committed); /* units_kept */
  assert(KEPT <= committed); /* nothing_comes_back */
  look()
}

/* The arithmetic: `next` of what process q knows, at moment t. Sends a write, or finishes without one. */
inline decide(q, t) {
  copyState(sent[q].s, p[q].s);
  if
  :: t >= sent[q].s.end -> sent[q].s.spent = 0; sent[q].s.end = ENDOF(t)
  :: else
  fi;
#if MUTANT_EXPIRY_SHRINKS
  sent[q].s.expires = (p[q].kind == RESET -> t : ENDOF(t));
#else
  sent[q].s.expires = (p[q].kind != RESET && sent[q].s.expires < ENDOF(t) -> ENDOF(t) : (sent[q].s.expires < t -> t : sent[q].s.expires));
#endif
  sent[q].alive = true; sent[q].kind = p[q].kind; sent[q].moment = t; sent[q].expected = p[q].version;
  sent[q].until = p[q].askedAt + 1;
  if
  :: p[q].kind == CONSUME && sent[q].s.spent < QUOTA -> sent[q].s.spent++
  :: p[q].kind == CONSUME && sent[q].s.spent >= QUOTA -> sent[q].alive = false
  :: p[q].kind == RESET && sent[q].s.spent > 0 -> sent[q].s.spent = 0
  :: p[q].kind == RESET && sent[q].s.spent == 0 -> sent[q].alive = false
  fi;
  if
  :: sent[q].alive ->
#if MUTANT_VERSIONS_FROM_ONE
    sent[q].version = p[q].version + 1;
#else
    findVersion();
    sent[q].version = fresh;
    fresh = 0;
#endif
#if MUTANT_SAME_VERSION_AGAIN
    if
    :: p[q].unsure -> sent[q].version = p[q].unsure; p[q].unsure = 0
    :: else
    fi;
#endif
    p[q].doing = WRITE
  /* Nothing to write: a refusal, or a change that was made before. Certain only of a row that has just been read. */
#if MUTANT_REFUSE_FROM_MEMORY
  :: !sent[q].alive -> settle(q)
#else
  :: !sent[q].alive && p[q].sure -> settle(q)
  :: !sent[q].alive && !p[q].sure -> forgetStatement(sent[q]); p[q].doing = READ
#endif
  fi
}

/* Without a write. */
inline settle(q) {
  if
  :: p[q].kind == CONSUME -> assert(p[q].wasFull) /* refused_truly */
  :: p[q].kind == RESET -> assert(p[q].wasUnused) /* reset_truly */
  fi;
  rest(q)
}

/* With one, whose answer has come. */
inline finish(q) {
  assert(p[q].written); /* told_is_written */
  rest(q)
}

/* What really happened when a statement of q was carried out. */
inline count(q, x) {
  assert(clock <= x.until); /* not_late */
  assert(x.until <= x.moment + 1 && x.moment <= clock); /* moment_between */
  if
  :: x.kind == CONSUME && ENDOF(x.moment) == ENDOF(clock) -> committed++
  :: x.kind == CONSUME && ENDOF(x.moment) != ENDOF(clock) -> before++
  :: x.kind == RESET ->
    /* Of the window before: its last units stay spent, if the reset was asked for in it. */
    committed = 0; before = 0
  fi;
  assert(committed <= QUOTA && before <= QUOTA) /* never_over */
}

#if MUTANT_NO_COMPARE || MUTANT_TRANSACTION_FORGETS
#define MATCHES(x) true
#else
#define MATCHES(x) (!row.present || row.version == x.expected)
#endif
#if MUTANT_EARLY_ALLOWED
#define TIMELY(x) (clock <= x.until)
#else
#if MUTANT_NO_UNTIL
#define TIMELY(x) (x.moment <= clock)
#else
#define TIMELY(x) (x.moment <= clock && clock <= x.until)
#endif
#endif

inline store(x) {
  row.present = true; row.version = x.version;
  copyState(row.s, x.s)
#if MUTANT_RESET_DELETES
  ;
  if
  :: x.kind == RESET -> row.present = false; row.version = 0; forgetState(row.s)
  :: else
  fi
#endif
}

inline remember(q) {
  p[q].knows = true;
  p[q].version = (row.present -> row.version : 0);
#if MUTANT_OLD_ROW_RETURNED
  if
  :: p[q].doing == WRITE
  :: else -> copyState(p[q].s, row.s)
  fi
#else
  copyState(p[q].s, row.s)
#endif
}

/* `ahead`: by how much its estimate of the server's clock is ahead. */
inline ask(q, what, ahead) {
  p[q].kind = what; p[q].askedAt = clock; p[q].wasFull = (KEPT >= QUOTA); p[q].wasUnused = (KEPT == 0); asks++;
  if
  :: !p[q].knows -> p[q].doing = READ
  :: p[q].knows ->
#if MUTANT_STALE_CLOCK
    decide(q, p[q].last)
#else
    decide(q, clock + ahead)
#endif
  fi
}

active [PROCESSES] proctype process() {
  byte q = _pid;
end:
  do
  :: d_step { p[q].doing == IDLE && asks < ASKS -> ask(q, CONSUME, 0); printf("%d: consumes at %d\n", q, clock) }
  :: d_step { p[q].doing == IDLE && asks < ASKS && p[q].knows -> ask(q, CONSUME, 1); printf("%d: consumes at %d, ahead\n", q, clock) }
  :: d_step { p[q].doing == IDLE && asks < ASKS && resets < RESETS -> resets++; ask(q, RESET, 0); printf("%d: resets at %d\n", q, clock) }
  /* The server reads. */
  :: d_step { p[q].doing == READ -> remember(q); p[q].last = clock; p[q].sure = true; p[q].doing = TOLD; printf("%d: is read version %d\n", q, p[q].version) }
  :: d_step { p[q].doing == TOLD -> decide(q, p[q].last); printf("%d: decides at %d of version %d\n", q, p[q].last, p[q].version) }
  /* The server writes, or not. */
  :: d_step { p[q].doing == WRITE && TIMELY(sent[q]) && MATCHES(sent[q]) ->
      store(sent[q]); count(q, sent[q]);
      p[q].written = true; p[q].last = clock; p[q].doing = WON;
      check();
      printf("%d: writes version %d, %d spent, at %d\n", q, row.version, row.s.spent, clock)
    }
  :: d_step { p[q].doing == WRITE && TIMELY(sent[q]) && !MATCHES(sent[q]) ->
      if
      :: sent[q].under -> remember(q); p[q].last = clock; p[q].sure = true; p[q].doing = TOLD
      :: !sent[q].under -> p[q].doing = READ
      fi;
      forgetStatement(sent[q]);
      sent[q].under = true;
      printf("%d: loses\n", q)
    }
  :: d_step { p[q].doing == WRITE && !TIMELY(sent[q]) && clock <= sent[q].until -> forgetStatement(sent[q]); p[q].doing = READ; printf("%d: came too early\n", q) }
  :: d_step { p[q].doing == WON ->
      p[q].knows = true; p[q].version = sent[q].version; copyState(p[q].s, sent[q].s);
#if MUTANT_RESET_DELETES
      if
      :: p[q].kind == RESET -> p[q].version = 0
      :: else
      fi;
#endif
      finish(q);
      printf("%d: is told\n", q)
    }
  /* Its deadline passes, or its connection breaks: the write may have been carried out, or may still be. */
  :: d_step { p[q].doing != IDLE && lost < LOST && !late[q].alive ->
      lost++;
      if
      :: p[q].doing == WRITE ->
        late[q].alive = true; late[q].kind = sent[q].kind; late[q].expected = sent[q].expected; late[q].version = sent[q].version;
        late[q].moment = sent[q].moment; late[q].until = sent[q].until;
        copyState(late[q].s, sent[q].s)
      :: else
      fi;
#if MUTANT_TRUST_LOST_ANSWER
      if
      :: p[q].doing == WRITE -> finish(q)
      :: else
      fi;
#endif
#if MUTANT_SAME_VERSION_AGAIN
      if
      :: p[q].doing == WRITE || p[q].doing == WON -> p[q].unsure = sent[q].version
      :: else
      fi;
#endif
      forget(q); rest(q);
      printf("%d: gives up\n", q)
    }
  :: d_step { p[q].doing == IDLE && p[q].knows -> forget(q); printf("%d: forgets\n", q) }
  /* Other rows of its flight take the place of this one. */
#if MUTANT_FLIGHT_FORGETS || MUTANT_TRANSACTION_FORGETS
  :: d_step { p[q].doing == TOLD && p[q].knows -> forget(q); printf("%d: forgets what it has read\n", q) }
#else
  :: d_step { EVICTS && p[q].doing != IDLE && !p[q].evicted -> p[q].evicted = true; printf("%d: remembers no more than this\n", q) }
#endif
  :: d_step { late[q].alive ->
      if
      :: TIMELY(late[q]) && MATCHES(late[q]) -> store(late[q]); count(q, late[q]); check(); printf("%d: its late statement writes version %d\n", q, row.version)
      :: else
      fi;
      forgetStatement(late[q])
    }
  od
}

active proctype world() {
end:
  do
#if MUTANT_SWEEP_LIVE
  :: d_step { row.present && sweeps < SWEEPS ->
#else
  :: d_step { row.present && clock > row.s.expires && sweeps < SWEEPS ->
#endif
      sweeps++;
      row.present = false; row.version = 0; forgetState(row.s); check(); printf("swept at %d\n", clock) }
  :: d_step { clock < TICKS ->
      clock++;
      if
      :: clock % 2 == 0 -> before = committed; committed = 0
      :: else
      fi;
      check();
      printf("clock %d\n", clock)
    }
  od
}
