/*
 * Statements that take several rows, lock by lock, as PostgreSQL does under READ COMMITTED: README.md explains the
 * words and the properties.

 * A statement sees what was committed when it began; a row that another statement holds is waited for; all of a
 * statement is committed at once.
*/
#ifndef STATEMENTS
#define STATEMENTS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define ROWS 2
#define NOBODY 255

typedef Row {
  bool there;      /* committed */
  byte version;    /* 0: never written */
  byte holder;     /* the statement that has locked, inserted or deleted it, and has not ended */
};
Row row[ROWS];

typedef Statement {
  bool seen[ROWS];       /* what was there when it began */
  byte expected[ROWS];   /* the versions that its process has read; 0: no row */
  bool inserts[ROWS];
  bool writes[ROWS];
  bool deletes[ROWS];
  byte waits;            /* the row that it waits for */
};
Statement st[STATEMENTS];

#define FREE(r) (row[r].holder == NOBODY || row[r].holder == id)

/* The end of a chain of waiting statements must not be the one that begins to wait. */
inline willWait(r) {
  st[id].waits = r;
  next = row[r].holder;
  do
  :: next == NOBODY || next == id || st[next].waits == NOBODY -> break
  :: else -> next = row[st[next].waits].holder
  od;
  assert(next != id); /* no_deadlock */
  next = NOBODY
}

#define MATCHES(r) (row[r].there && row[r].version == st[id].expected[r])

#define UPSERT 0
#define LOCK 1
#define INSERT 2
#define DELETE 3

/* What a statement does with a row that is free. */
inline take(r) {
  if
  /* ON CONFLICT locks a row also if its version differs. */
  :: how == UPSERT ->
    row[r].holder = id;
    st[id].inserts[r] = !row[r].there;
    st[id].writes[r] = (!row[r].there || MATCHES(r))
  :: how == LOCK && row[r].there ->
    row[r].holder = id;
    good = good + MATCHES(r)
  :: how == INSERT && !row[r].there ->
    row[r].holder = id;
    st[id].inserts[r] = true;
    good++
  :: how == DELETE && row[r].there ->
    row[r].holder = id;
    st[id].deletes[r] = true
  :: else
  fi
}

inline await(r) {
  if
  :: atomic { FREE(r) -> take(r) }
  :: atomic { !FREE(r) -> willWait(r) }; atomic { FREE(r) -> st[id].waits = NOBODY; take(r) }
  fi
}

/* The read that comes before a write; the database is asked again for rows that it lacks. */
inline read() {
  atomic {
    r = 0;
    do
    :: r < ROWS -> st[id].expected[r] = (row[r].there -> row[r].version : 0); r++
    :: else -> break
    od;
    r = 0
  }
}

inline begin() {
  atomic {
    r = 0;
    do
    :: r < ROWS -> st[id].seen[r] = row[r].there; r++
    :: else -> break
    od;
    r = 0
  }
}

/* `group`: all its rows are written, or none. */
inline commit(group) {
  atomic {
    r = 0; written = 0;
    do
    :: r < ROWS ->
      if
      :: st[id].writes[r] ->
        assert(!row[r].there || row[r].version == st[id].expected[r]); /* never_overwritten */
        written++
      :: else
      fi;
      r++
    :: else -> break
    od;
    assert(!group || written == 0 || written == ROWS); /* all_or_none */
    r = 0;
    do
    :: r < ROWS ->
      if
      :: st[id].deletes[r] -> row[r].there = false
      :: else
      fi;
      if
      :: st[id].writes[r] || st[id].inserts[r] -> row[r].there = true; row[r].version++
      :: else
      fi;
      if
      :: row[r].holder == id -> row[r].holder = NOBODY
      :: else
      fi;
      st[id].seen[r] = false; st[id].expected[r] = 0; st[id].inserts[r] = false; st[id].writes[r] = false; st[id].deletes[r] = false;
      r++
    :: else -> break
    od;
    r = 0; n = 0; k = 0; how = 0; good = 0; written = 0
  }
}

/* The first row in the order in which locks are taken, and the one after it. */
#if MUTANT_UNORDERED
#define AT(n) (id % 2 == 0 -> n : ROWS - 1 - n)
#else
#define AT(n) n
#endif

/* U: an upsert of rows that stand alone. */
inline upsert() {
  how = UPSERT; n = 0;
  do
  :: n < ROWS -> k = AT(n); await(k); n++
  :: else -> break
  od
}

/* W: locks the rows of a group that are there, compares them, and updates all or none. */
inline lockAndUpdate() {
  begin();
  how = LOCK; n = 0; good = 0;
#if MUTANT_UNLOCKED
  good = (MATCHES(0) && MATCHES(1) -> ROWS : 0);
#endif
  do
  :: n < ROWS ->
    k = AT(n);
    if
    :: st[id].seen[k] -> await(k)
    :: else
    fi;
    n++
  :: else -> break
  od;
#if MUTANT_INSERTS_LAST
  how = INSERT; n = 0;
  do
  :: n < ROWS ->
    k = n;
    if
    :: !st[id].seen[k] && st[id].expected[k] == 0 -> await(k)
    :: else
    fi;
    n++
  :: else -> break
  od;
#endif
  atomic {
    n = 0;
    do
    :: n < ROWS ->
#if MUTANT_GROUP_HALVES
      st[id].writes[n] = (row[n].holder == id && MATCHES(n));
#else
      st[id].writes[n] = (good >= ROWS);
#endif
      st[id].inserts[n] = (st[id].inserts[n] && good >= ROWS);
      n++
    :: else -> break
    od
  }
}

/* Makes the rows that a group lacks; of one that is there it takes no lock. */
inline insertEmpty() {
  how = INSERT; n = 0;
  do
  :: n < ROWS ->
    k = AT(n);
    if
    :: !row[k].there -> await(k)
    :: else
    fi;
    n++
  :: else -> break
  od
}

/* Skips what another statement holds, so it never waits. The order of its rows is not given. */
inline sweep() {
  how = DELETE; n = 0;
  do
  :: n < ROWS ->
    k = (id % 2 == 0 -> n : ROWS - 1 - n);
#if MUTANT_SWEEP_WAITS
    await(k);
#else
    atomic {
      if
      :: FREE(k) -> take(k)
      :: else
      fi
    };
#endif
    n++
  :: else -> break
  od
}

proctype statement(byte id) {
  byte rounds, r, n, k, how, good, written, next = NOBODY;
  do
  :: rounds < ROUNDS ->
    rounds++;
    if
    :: read(); upsert(); commit(false)
    :: read();
#if !MUTANT_INSERTS_LAST
      if
      :: st[id].expected[0] && st[id].expected[1]
      :: else -> insertEmpty(); commit(false); read()
      fi;
#endif
      lockAndUpdate(); commit(true)
    :: id == 1 -> sweep(); commit(false)
    fi
  :: else -> break
  od
}

init {
  byte b;
  atomic {
    row[0].holder = NOBODY; row[1].holder = NOBODY;
    do
    :: b < STATEMENTS -> st[b].waits = NOBODY; run statement(b); b++
    :: else -> break
    od
  }
}
