/* Takes and releases of a semaphore without the line, while nobody waits (takes.ts, semaphore_take.lua). The table of the leases has another name while somebody waits: a take is refused then,
 * and a ZREM finds nothing, so that its sender asks the line. Clients make their requests one after the other. Asks of the line are one step here: that they count once is shown by the other models.
 *
 * A request has two names: T(q) for its take, L(q) for its place in the line. An ended lease stays until a script sweeps it. */
#ifndef QUOTA
#define QUOTA 1
#endif
#ifndef NC
#define NC 2               /* clients */
#endif
#ifndef NR
#define NR 4               /* requests; request q belongs to client q mod NC */
#endif
#ifndef STRAYS
#define STRAYS 1           /* copies of takes that arrive at any later moment */
#endif
#ifndef RSTRAYS
#define RSTRAYS 1          /* copies of releases that do */
#endif
#ifndef LOST
#define LOST 1             /* takes, releases or answers that are lost */
#endif
#ifndef WIDE
#define WIDE 0             /* requests that want two permits, as bits */
#endif
#ifndef RUN_OUT
#define RUN_OUT 0          /* leases that nobody releases (their holder died): they end by themselves */
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0         /* requests that time out or abort while their take is in flight, or while they wait */
#endif
#ifndef HIDDEN
#define HIDDEN 0           /* the client does not know that its take was sent twice */
#endif
#ifndef TRIES
#define TRIES 0            /* requests that take what is free now, or nothing, as bits */
#endif
#ifndef UNREAD
#define UNREAD 0           /* leases that end by themselves before their client reads the grant */
#endif
#define BIT(c) (1 << (c))
#define T(q) (1 << (q))
#define L(q) (1 << ((q) + 6))
#define WIDE2 (WIDE | (WIDE << 6))
#define BEYOND(q) ((WIDE) >> (q) & 1)
#define BEYOND_OF(n) (((n) & WIDE2) != 0)
#define B(s, i) ((s) >> (i) & 1)
#define SUM(s) (B(s,0) + B(s,1) + B(s,2) + B(s,3) + B(s,4) + B(s,5) + B(s,6) + B(s,7) + B(s,8) + B(s,9) + B(s,10) + B(s,11))
#define FITS(q) (SUM(leases & ~over) + extra + 1 + BEYOND(q) <= QUOTA)

mtype = { NEW, ASKED, GAVE_UP, HELD, WAITS, RELEASING, ENDED }
mtype = { NONE, SENT, GRANTED, FULL, REFUSED, ANSWERED, ABSENT, UNKNOWN }

/* ---- the server ---- */
short leases;              /* the names in the table, ended ones included */
short over;                /* those whose deadline has passed */
short left;                /* names that stay for a copy of their take */
byte extra;                /* permits beyond one, of all leases in the table */
byte line[NR];             /* who waits, in order */
byte waiting;

/* ---- the clients ---- */
mtype state[NR] = NEW;
mtype call[NC] = NONE;     /* the take in flight, or its answer */
mtype rcall[NC] = NONE;    /* the release in flight, or its answer */
byte asked[NC], rasked[NC];
short rname[NC];
byte suspect;              /* requests whose take may come twice, as far as the client knows */
byte held_by_line;         /* those that hold L(q) */
byte told;                 /* clients with a message that tells them to ask */
byte due;                  /* clients whose timer is to ring when a lease ends */

/* ---- the network ---- */
bit copy; byte copied; byte copies;
bit rcopy; short rcopied; byte rcopies;
byte lost, runOuts, giveUps, unread;
short unattended;          /* leases that nobody will release */
short gone;                /* names of leases that ended by themselves: that moment is after the last one at which their take may be carried out */

/* ---- for the properties only ---- */
short begun;               /* leases whose clients take them for held */

hidden byte x, i;

inline sweep() {
  if
  :: over != 0 ->
    x = 0; do :: !B(over, x) -> x++ :: else -> break od;
#if !MUTANT_SWEPT_EXTRA_STAYS
    if :: BEYOND_OF(1 << x) -> extra-- :: else fi;
#endif
    leases = leases & ~(1 << x); over = over & ~(1 << x)
  :: else
  fi
}

inline begin(n) {
  begun = begun | (n);
  assert(SUM(begun) + SUM(begun & WIDE2) <= QUOTA)          /* permits_kept */
}

inline grantFirst() {
  q1 = line[0];
  i = 0; do :: i + 1 < waiting -> line[i] = line[i + 1]; i++ :: else -> break od;
  line[waiting - 1] = 0; waiting--;
  leases = leases | L(q1); extra = extra + BEYOND(q1);
  state[q1] = HELD; held_by_line = held_by_line | BIT(q1);
  begin(L(q1))
}

/* The walk: grants the first waiters of the asker (NC: of nobody), and tells the process of another that fits. */
inline walk(c) {
  sweep();
  do
  :: waiting > 0 && FITS(line[0]) && line[0] % NC == (c) -> grantFirst()
  :: waiting > 0 && FITS(line[0]) && line[0] % NC != (c) -> told = told | BIT(line[0] % NC); break
  :: else -> break
  od;
  if :: waiting > 0 && over != 0 -> due = due | BIT(line[0] % NC) :: else fi;
  i = 0; q1 = 0
}

inline take(q, reply) {
  if
#if !MUTANT_NO_LAST_MOMENT
  :: gone & T(q) -> reply = REFUSED
#endif
#if MUTANT_NAME_NOT_SOUGHT
  :: 0 -> skip
#else
  :: waiting == 0 && (leases & T(q)) -> reply = (over & T(q) -> REFUSED : GRANTED)
#endif
#if !MUTANT_TAKE_BESIDE_A_LINE
  :: waiting > 0 -> reply = REFUSED
#endif
  :: else ->
    if
    :: left & T(q) -> reply = REFUSED
    :: else ->
      if :: over != 0 -> sweep() :: skip fi;
      if
      :: FITS(q) ->
        assert(waiting == 0);                                /* order_kept */
        leases = leases | T(q); extra = extra + BEYOND(q); reply = GRANTED;
        if
        :: HIDDEN && state[q] != ASKED && state[q] != GAVE_UP -> unattended = unattended | T(q)
        :: else
        fi;
#if !HIDDEN
        assert(state[q] == ASKED || state[q] == GAVE_UP)     /* no_lease_without_asker */
#endif
      :: else -> reply = FULL
      fi
    fi
  fi
}

/* Ends a lease by its name, if it is there. */
inline end(n, leaves) {
  if
  :: leases & (n) ->
    leases = leases & ~(n); over = over & ~(n); unattended = unattended & ~(n);
#if !MUTANT_EXTRA_STAYS
    if :: BEYOND_OF(n) -> extra-- :: else fi
#else
    skip
#endif
#if MUTANT_EXTRA_TWICE
  :: else -> if :: BEYOND_OF(n) && extra > 0 -> extra-- :: else fi
#else
  :: else
#endif
  fi;
#if !MUTANT_NAME_NOT_LEFT
  if :: leaves -> left = left | (n) :: else fi
#endif
}

/* An ask that ends a lease: it walks the line. */
inline askEnd(n, leaves, c) {
  end(n, leaves);
#if MUTANT_RELEASE_TELLS_NOBODY
  skip
#else
  walk(c)
#endif
}

/* A request goes to the line. After a take it ends its lease first, if there is one; if a copy of the take may be under way, its name stays. */
inline join(q, c, ends, leaves) {
#if !MUTANT_REFUSAL_BELIEVED
  if :: ends -> end(T(q), leaves) :: else fi;
#endif
#if MUTANT_JOIN_ONLY_WAITS
  if
  :: 0 -> skip
#else
  if
  :: waiting == 0 && FITS(q) -> leases = leases | L(q); extra = extra + BEYOND(q); state[q] = HELD; held_by_line = held_by_line | BIT(q); begin(L(q))
#endif
  :: (TRIES >> (q) & 1) && !(waiting == 0 && FITS(q)) -> state[q] = ENDED; walk(c)
  :: else -> line[waiting] = q; waiting++; state[q] = WAITS;
#if !MUTANT_JOIN_ONLY_WAITS
    walk(c)
#endif
  fi
}

inline leave(q, c) {
  i = 0; do :: line[i] != q -> i++ :: else -> break od;
  do :: i + 1 < waiting -> line[i] = line[i + 1]; i++ :: else -> break od;
  line[waiting - 1] = 0; waiting--; state[q] = ENDED;
  walk(c)
}

#define NAME(q) (held_by_line & BIT(q) -> L(q) : T(q))
#define SUSPECT(q) ((suspect & BIT(q)) != 0 && !(held_by_line & BIT(q)))

proctype client(byte c) {
  byte q = c;
  byte q1;
  short n;
  do
  :: q >= NR -> break
  :: q < NR && state[q] == ENDED -> atomic { q = q + NC; q1 = 0; n = 0 }
  :: q < NR && state[q] == NEW && call[c] == NONE && rcall[c] == NONE -> atomic {
      state[q] = ASKED;
      if
      :: call[c] = SENT; asked[c] = q;
        if
        :: copies < STRAYS && !copy -> copy = 1; copies++; copied = q;
          if :: HIDDEN -> skip :: !HIDDEN -> suspect = suspect | BIT(q) fi
        :: skip
        fi
      :: join(q, c, 0, 0)                       /* somebody waited lately */
      fi
    }
  :: q < NR && (state[q] == ASKED && call[c] != NONE) && giveUps < GIVE_UPS -> atomic { giveUps++; state[q] = GAVE_UP }
  :: q < NR && state[q] == WAITS && giveUps < GIVE_UPS -> atomic { giveUps++; leave(q, c) }
  :: q < NR && call[c] == GRANTED && state[q] == ASKED -> atomic { call[c] = NONE;
      if
#if !MUTANT_OLD_GRANT_USED
      :: gone & T(q) -> join(q, c, 1, 1)
#endif
      :: else -> state[q] = HELD; begin(T(q))
      fi
    }
  :: q < NR && (call[c] == REFUSED || call[c] == FULL) && state[q] == ASKED -> atomic {
      if
#if MUTANT_FULL_BELIEVED
      :: call[c] == FULL && (TRIES >> q & 1) -> call[c] = NONE; state[q] = ENDED
#else
      :: call[c] == FULL && (TRIES >> q & 1) && !SUSPECT(q) -> call[c] = NONE; state[q] = ENDED
#endif
      :: else -> call[c] = NONE; join(q, c, 1, SUSPECT(q))
      fi
    }
  :: q < NR && call[c] == UNKNOWN && state[q] == ASKED -> atomic { call[c] = NONE; suspect = suspect | BIT(q);
#if MUTANT_UNKNOWN_LEASE_STAYS
      join(q, c, 0, 0)
#else
      join(q, c, 1, 1)
#endif
    }
  :: q < NR && call[c] == GRANTED && state[q] == GAVE_UP -> atomic { call[c] = NONE;
#if MUTANT_LATE_GRANT_KEPT
      state[q] = ENDED
#else
      if
      :: SUSPECT(q) || BEYOND(q) -> state[q] = ENDED; askEnd(T(q), SUSPECT(q), c)
      :: else -> state[q] = RELEASING; rcall[c] = SENT; rasked[c] = q; rname[c] = T(q)
      fi
#endif
    }
  :: q < NR && (call[c] == REFUSED || call[c] == FULL) && state[q] == GAVE_UP -> atomic {
      call[c] = NONE; state[q] = ENDED; end(T(q), SUSPECT(q)); walk(c) }
  :: q < NR && call[c] == UNKNOWN && state[q] == GAVE_UP -> atomic { call[c] = NONE; state[q] = ENDED; end(T(q), 1); walk(c) }
  :: q < NR && state[q] == HELD -> atomic {
      n = NAME(q);
      if
      :: runOuts < RUN_OUT -> runOuts++; state[q] = ENDED; unattended = unattended | n
#if MUTANT_ZREM_OF_SEVERAL
      :: !SUSPECT(q) ->
#elif MUTANT_ZREM_OF_SUSPECT
      :: !BEYOND(q) ->
#else
      :: !SUSPECT(q) && !BEYOND(q) ->
#endif
        begun = begun & ~n; state[q] = RELEASING; rcall[c] = SENT; rasked[c] = q; rname[c] = n;
        if :: rcopies < RSTRAYS && !rcopy -> rcopy = 1; rcopies++; rcopied = n :: skip fi
      :: begun = begun & ~n; state[q] = ENDED; askEnd(n, SUSPECT(q), c)
      fi;
      n = 0
    }
  :: q < NR && rcall[c] == ANSWERED -> atomic { rcall[c] = NONE; state[q] = ENDED }
  :: q < NR && (rcall[c] == ABSENT || rcall[c] == UNKNOWN) -> atomic { rcall[c] = NONE; state[q] = ENDED; n = rname[c]; askEnd(n, SUSPECT(q), c); n = 0 }
  :: told & BIT(c) -> atomic { told = told & ~BIT(c); walk(c) }
  :: due & BIT(c) -> atomic { due = due & ~BIT(c); walk(c) }
  od
}

inline deliverTake(c) {
  if
  :: take(asked[c], reply);
    if :: call[c] = reply :: lost < LOST -> lost++; call[c] = UNKNOWN fi
  :: lost < LOST -> lost++; call[c] = UNKNOWN
  fi
}

inline zrem(n) {
  leases = leases & ~(n); over = over & ~(n); unattended = unattended & ~(n)
}

inline deliverRelease(c) {
  if
#if MUTANT_ZREM_BESIDE_A_LINE
  :: (leases & rname[c]) -> zrem(rname[c]); rcall[c] = ANSWERED
#else
  :: waiting == 0 && (leases & rname[c]) -> zrem(rname[c]);
    if :: rcall[c] = ANSWERED :: lost < LOST -> lost++; rcall[c] = UNKNOWN fi
#endif
  :: else ->
    if :: rcall[c] = ABSENT :: lost < LOST -> lost++; rcall[c] = UNKNOWN fi
  :: lost < LOST -> lost++; rcall[c] = UNKNOWN
  fi
}

proctype network() {
  mtype reply;
  byte q1;
  do
  :: call[0] == SENT -> atomic { deliverTake(0) }
  :: call[1] == SENT -> atomic { deliverTake(1) }
  :: rcall[0] == SENT -> atomic { deliverRelease(0) }
  :: rcall[1] == SENT -> atomic { deliverRelease(1) }
#if NC == 3
  :: call[2] == SENT -> atomic { deliverTake(2) }
  :: rcall[2] == SENT -> atomic { deliverRelease(2) }
#endif
  :: copy -> atomic { copy = 0; take(copied, reply); reply = NONE }
  :: copy -> copy = 0
  :: rcopy -> atomic { rcopy = 0; if :: waiting == 0 -> zrem(rcopied) :: else fi }
  :: rcopy -> rcopy = 0
  :: atomic { unread < UNREAD && call[0] == GRANTED && state[asked[0]] == ASKED -> unread++; unattended = unattended | T(asked[0]) }
  :: atomic { unattended != 0 ->
      x = 0; do :: !B(unattended, x) -> x++ :: else -> break od;
      begun = begun & ~(1 << x); unattended = unattended & ~(1 << x); gone = gone | (1 << x);
      if :: leases & (1 << x) -> over = over | (1 << x) :: else fi;
      if :: waiting > 0 -> due = due | BIT(line[0] % NC) :: else fi
    }
  :: timeout -> break
  od;
  assert(waiting == 0);                                      /* served_at_last */
  do :: over != 0 -> sweep() :: else -> break od;
  assert(leases == 0 && extra == 0)                          /* nothing_left */
}

init { atomic { run client(0); run client(1);
#if NC == 3
  run client(2);
#endif
  run network() } }
