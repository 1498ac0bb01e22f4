/*
  A Bottleneck over Redis: README.md explains the words and the properties. All jobs have the weight 1.

 * The calls of a process have numbers; here it is enough to know whether the present one is served (`served`), and that
 * an older one may arrive late (`late`).
*/
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef JOBS
#define JOBS 2
#endif
#ifndef RESERVOIR
#define RESERVOIR 100 /* none */
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef UNHEARD
#define UNHEARD 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
/* The most safety checks in a row that launch nothing, although nothing runs: places of the dead come back, then
   whoever was called and is dead is passed over. */
#define PATIENCE 3

#define NONE 0
#define SENT 1
#define ANSWERED 2

typedef Process {
  bool dead;
  byte jobs;     /* that have come */
  byte queue;
  byte running;
  bool due;      /* it has to ask */
  byte call;     /* NONE, SENT or ANSWERED */
  byte held;     /* what the call tells: places, */
  byte waiting;  /* and the length of the queue */
  byte granted;  /* the answer */
  bool late;     /* an older call is still under way, and what it tells */
  byte lateHeld;
  byte lateWaiting;
};
Process p[PROCESSES];

typedef Fact {
  bool known;
  bool expired;  /* its lease has ended */
  bool served;   /* its present call */
  byte held;
  byte waiting;
  bool called;   /* it was called, */
  bool passed;   /* and has not come in time */
  bool news;     /* the message is under way */
};
Fact f[PROCESSES];
/* The line of processes with waiting jobs; PROCESSES: an empty place. */
byte line[PROCESSES];
byte reservoir = RESERVOIR;

byte lost, lates, crashes, unheard, flushes, spent, started, fruitless;
bool progress;

byte i, j, k, free, kept, given, left;
bool blocked;
#if MUTANT_LATE_COUNTED
byte oldGranted;
bool oldServed;
#endif

inline leaveLine(q) {
  j = 0;
  do
  :: j < PROCESSES && line[j] != q -> j++
  :: else -> break
  od;
  do
  :: j < PROCESSES - 1 -> line[j] = line[j + 1]; j++
  :: j == PROCESSES - 1 -> line[j] = PROCESSES; j++
  :: else -> break
  od;
  j = 0
}

inline joinLine(q) {
  j = 0;
  do
  :: line[j] != PROCESSES -> j++
  :: else -> break
  od;
  line[j] = q;
  j = 0
}

inline forget(q) {
  f[q].known = false; f[q].expired = false; f[q].held = 0; f[q].waiting = 0; f[q].called = false; f[q].passed = false;
  leaveLine(q)
}

/* Keeps a place for each process before q in line, and calls it. `blocked`: there is none left, so that nobody behind
   it is served. */
inline serveAhead(q) {
  kept = 0; blocked = false; k = 0;
  do
  :: k < PROCESSES && line[k] != q && line[k] != PROCESSES && !blocked ->
    if
    :: f[line[k]].passed -> i = line[k]; f[i].passed = false; leaveLine(i)
    :: else ->
      if
      :: free < kept + 1 || reservoir < kept + 1 -> blocked = true
      :: else ->
        kept++;
        if
        :: !f[line[k]].called -> f[line[k]].called = true; f[line[k]].news = true
        :: else
        fi;
        k++
      fi
    fi
  :: else -> break
  od;
  i = 0; k = 0
}

/* One call of the script: the process tells what it holds, and how many jobs wait; places are given by turns. */
inline serve(q, itsHeld, itsWaiting) {
  i = 0;
  free = CAPACITY;
  do
  :: i < PROCESSES ->
    if
    :: f[i].expired && i != q -> forget(i)
    :: else
    fi;
    if
    :: i != q -> free = (free > f[i].held -> free - f[i].held : 0)
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0;
  free = (free > itsHeld -> free - itsHeld : 0);
  given = 0; left = itsWaiting;
  do
  :: left > 0 ->
    serveAhead(q);
    if
    :: blocked || free < kept + 1 || reservoir < kept + 1 -> break
    :: else ->
      free--; given++; left--; spent++;
      if
      :: RESERVOIR < 100 -> reservoir--
      :: else
      fi;
      /* Whoever is served goes to the end of the line. */
      leaveLine(q)
    fi
  :: else -> break
  od;
  f[q].known = true; f[q].expired = false; f[q].called = false; f[q].passed = false;
  f[q].held = itsHeld + given;
  f[q].waiting = left;
  if
  :: left == 0 -> leaveLine(q)
  :: else ->
    k = 0;
    do
    :: k < PROCESSES && line[k] != q -> k++
    :: else -> break
    od;
    if
    :: k == PROCESSES -> joinLine(q)
    :: else
    fi;
    k = 0
  fi;
  /* Those whose turn it is now are called. */
  serveAhead(q);
  p[q].granted = given;
  f[q].served = true;
  if
  :: given > 0 -> progress = true
  :: else
  fi;
  free = 0; kept = 0; given = 0; left = 0; blocked = false
}

#define TRUSTED (flushes == 0)

inline checkCapacity() {
  i = 0; left = 0;
  do
  :: i < PROCESSES -> left = left + p[i].running; i++
  :: else -> break
  od;
  assert(left <= CAPACITY || !TRUSTED); /* capacity */
  i = 0; left = 0
}

/* What a process does, and what happens to it and to its calls. */
proctype process(byte q) {
end:
  do
  :: d_step { !p[q].dead && p[q].jobs < JOBS -> p[q].jobs++; p[q].queue++; p[q].due = true; printf("%d: a job comes\n", q) }
  :: d_step { !p[q].dead && p[q].due && p[q].call == NONE ->
        p[q].due = false; p[q].call = SENT; f[q].served = false; p[q].held = p[q].running; p[q].waiting = p[q].queue; p[q].granted = 0;
        printf("%d: asks, holds %d, %d wait\n", q, p[q].running, p[q].queue)
      }
  :: d_step { p[q].call == SENT ->
        if
#if MUTANT_REPEATED
        :: true -> serve(q, p[q].held, p[q].waiting)
#else
        :: !f[q].served -> serve(q, p[q].held, p[q].waiting)
        :: else /* the same answer again */
#endif
        fi;
        p[q].call = ANSWERED;
        printf("store: answers %d: %d launched\n", q, p[q].granted)
      }
  :: d_step { !p[q].dead && p[q].call == ANSWERED ->
        p[q].call = NONE;
        p[q].queue = p[q].queue - p[q].granted; p[q].running = p[q].running + p[q].granted; started = started + p[q].granted;
        printf("%d: runs %d\n", q, p[q].running);
        checkCapacity()
      }
  :: d_step { p[q].running > 0 ->
        p[q].running--;
#if !MUTANT_END_UNTOLD
        p[q].due = true;
#endif
        printf("%d: a job ends\n", q)
      }
    /* The call or its answer is lost: it is sent again. */
  :: d_step { p[q].call != NONE && !p[q].dead && lost < LOST -> lost++; p[q].call = SENT; printf("%d: gets no answer\n", q) }
    /* It is sent again although it is only late. */
  :: d_step { p[q].call == SENT && !p[q].late && lates < LATE ->
        lates++; p[q].late = true; p[q].lateHeld = p[q].held; p[q].lateWaiting = p[q].waiting; printf("%d: its call is late\n", q)
      }
  :: d_step { p[q].late ->
        p[q].late = false;
        if
        :: p[q].call == SENT && !f[q].served && p[q].lateHeld == p[q].held && p[q].lateWaiting == p[q].waiting -> serve(q, p[q].held, p[q].waiting)
#if MUTANT_LATE_COUNTED
        :: else ->
          oldGranted = p[q].granted; oldServed = f[q].served;
          serve(q, p[q].lateHeld, p[q].lateWaiting);
          p[q].granted = oldGranted; f[q].served = oldServed; oldGranted = 0; oldServed = false
#else
        :: else
#endif
        fi;
        p[q].lateHeld = 0; p[q].lateWaiting = 0;
        printf("store: a late call of %d\n", q)
      }
  :: d_step { f[q].news -> f[q].news = false;
        if
        :: !p[q].dead && p[q].queue > 0 -> p[q].due = true
        :: else
        fi
      }
  :: d_step { f[q].called && !f[q].passed && !f[q].news -> f[q].passed = true; printf("%d: does not come in time\n", q) }
  :: d_step { f[q].news && unheard < UNHEARD -> unheard++; f[q].news = false; printf("%d: does not hear\n", q) }
  :: d_step { !p[q].dead && crashes < CRASHES ->
        crashes++; p[q].dead = true; p[q].running = 0; p[q].queue = 0; p[q].due = false;
        printf("%d: dies\n", q)
      }
    /* The lease of a process that lives is renewed in time. */
#if MUTANT_NOT_RENEWED
  :: d_step { f[q].known && !f[q].expired -> f[q].expired = true; printf("the lease of %d ends\n", q) }
#elif !MUTANT_PLACES_KEPT
  :: d_step { p[q].dead && f[q].known && !f[q].expired -> f[q].expired = true; printf("the lease of %d ends\n", q) }
#endif
  od
}

proctype flush() {
end:
  do
  :: d_step { flushes < FLUSHES -> flushes++;
        i = 0;
        do
        :: i < PROCESSES -> f[i].known = false; f[i].expired = false; f[i].held = 0; f[i].waiting = 0; f[i].called = false; f[i].passed = false; f[i].served = false; line[i] = PROCESSES; i++
        :: else -> break
        od;
        i = 0; reservoir = RESERVOIR;
        printf("the state is deleted\n")
      }
  od
}

/* When nothing else can happen: the safety checks of those that wait. */
proctype time() {
end:
  do
  :: atomic { timeout ->
      i = 0; left = 0;
      do
      :: i < PROCESSES ->
        left = left + p[i].queue;
        assert(p[i].running == 0);
        i++
      :: else -> break
      od;
      i = 0;
      assert(spent == started || crashes > 0 || flushes > 0); /* spent_once */
      if
      :: left == 0 -> left = 0; goto end2
      :: else
      fi;
      left = 0;
      fruitless = (progress -> 0 : fruitless + 1);
      progress = false;
      assert(fruitless <= PATIENCE); /* nobody_stuck */
      do
      :: i < PROCESSES ->
#if !MUTANT_NO_CHECK
        if
        :: p[i].queue > 0 -> p[i].due = true
        :: else
        fi;
#endif
        f[i].passed = f[i].called;
#if !MUTANT_PLACES_KEPT
        f[i].expired = f[i].known && p[i].dead;
#endif
        i++
      :: else -> break
      od;
      i = 0;
      if
      :: reservoir == 0 -> reservoir = RESERVOIR
      :: else
      fi
    }
  od;
end2:
  skip
}

init {
  atomic {
    do
    :: i < PROCESSES -> line[i] = PROCESSES; run process(i); i++
    :: else -> break
    od;
    i = 0;
    run flush();
    run time()
  }
}
