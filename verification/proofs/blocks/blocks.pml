/*
  Growing blocks of a key that is denied too often: README.md explains the words and the properties.

 * A moment is the number of blocks that have ended by then: a denial is old if a block has ended since. `begun`
 * likewise counts blocks that have begun.
*/
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef AFTER
#define AFTER 2
#endif
#ifndef DENIALS
#define DENIALS 6
#endif
#ifndef BLOCKS
#define BLOCKS 3
#endif
#ifndef LOST
#define LOST 1
#endif

#define NONE 0
#define SENT 1
#define ANSWERED 2

/* What the store keeps: the denials since the last block, the number of the last block (0: forgotten), and whether a
   block is in force. */
byte counted, number;
bool inForce;
/* What really happened. `oldCounted`: of the counted denials, those that were made before the last block ended. */
byte begun, ended, chain, oldCounted, denials, lost;

typedef Process {
  byte pending;     /* denials that are not reported */
  byte sinceEnd;    /* the moment of the oldest of them, in blocks ended */
  byte sinceBegin;  /* and in blocks begun */
  byte old;         /* really: how many of them are old */
  byte report;      /* NONE, SENT or ANSWERED */
  byte reported;    /* the report's denials, with the same facts */
  byte reportedEnd;
  byte reportedBegin;
  byte reportedOld;
  bool looked;      /* only of a mutant: it has read the number of the last block, and has yet to write the next */
  byte seen;
};
Process p[PROCESSES];

inline choose(q) {
  q = 0;
  do
  :: q < PROCESSES - 1 -> q++
  :: break
  od
}

inline make(q) {
  assert(!inForce); /* block_kept */
  assert(oldCounted == 0); /* one_burst_one_block */
#if MUTANT_SEPARATE_STEPS
  number = p[q].seen + 1;
#else
  number++;
#endif
  chain++;
  assert(number == chain); /* grows_in_turn */
  inForce = true;
  begun++;
#if MUTANT_EXCESS_KEPT
  oldCounted = counted - AFTER;
  counted = counted - AFTER;
#else
#if MUTANT_COUNT_KEPT
  oldCounted = counted;
#else
  counted = 0;
  oldCounted = 0;
#endif
#endif
}

/* The newest denial of a report counts as made when the report arrives; the others only if the oldest was made after
   the last block had ended. */
#if MUTANT_AGE_UNKNOWN
#define ISOLD(q) false
#else
#if MUTANT_AGE_SINCE_BEGIN
#define ISOLD(q) (p[q].reportedBegin < begun)
#else
#define ISOLD(q) (p[q].reportedEnd < ended)
#endif
#endif

#if MUTANT_FORCE_UNKNOWN
#define ISKEPT false
#else
#define ISKEPT inForce
#endif
#if MUTANT_EXACTLY
#define ISENOUGH (counted == AFTER)
#else
#define ISENOUGH (counted >= AFTER)
#endif

inline serve(q) {
  if
  :: ISKEPT
  :: !ISKEPT && ISOLD(q) -> counted++
  :: !ISKEPT && !ISOLD(q) ->
    counted = counted + p[q].reported;
    oldCounted = oldCounted + (p[q].reportedOld == p[q].reported -> p[q].reportedOld - 1 : p[q].reportedOld)
  fi;
#if MUTANT_SEPARATE_STEPS
  if
  :: !inForce && counted >= AFTER -> p[q].looked = true; p[q].seen = number
  :: else -> p[q].report = ANSWERED
  fi
#else
  if
  :: !ISKEPT && ISENOUGH && begun < BLOCKS -> make(q)
  :: else
  fi;
  assert(inForce || counted < AFTER || begun == BLOCKS); /* denials_suffice */
  p[q].report = ANSWERED
#endif
}

inline forgetReport(q) {
  p[q].report = NONE; p[q].reported = 0; p[q].reportedEnd = 0; p[q].reportedBegin = 0; p[q].reportedOld = 0
}

byte i;
active proctype world() {
  byte q = 0;
end:
  do
  :: choose(q);
endChosen:
    if
    /* A request of the key is denied; perhaps from the deny cache, while another process has blocked the key. */
    :: d_step { denials < DENIALS ->
        denials++;
        if
        :: p[q].pending == 0 -> p[q].sinceEnd = ended; p[q].sinceBegin = begun
        :: else
        fi;
        p[q].pending++;
        printf("%d: denies, %d pending\n", q, p[q].pending)
      }
    /* It reports what is pending, perhaps much later: one report at a time. */
    :: d_step { p[q].pending > 0 && p[q].report == NONE ->
        p[q].report = SENT;
        p[q].reported = p[q].pending; p[q].reportedEnd = p[q].sinceEnd; p[q].reportedBegin = p[q].sinceBegin; p[q].reportedOld = p[q].old;
        p[q].pending = 0; p[q].sinceEnd = 0; p[q].sinceBegin = 0; p[q].old = 0;
        printf("%d: reports %d\n", q, p[q].reported)
      }
    :: d_step { p[q].report == SENT && !p[q].looked ->
        serve(q);
        printf("store: %d of process %d, %d counted, block %d, in force %d\n", p[q].reported, q, counted, number, inForce)
      }
#if MUTANT_SEPARATE_STEPS
    :: d_step { p[q].looked && begun < BLOCKS ->
        make(q);
        p[q].looked = false; p[q].seen = 0; p[q].report = ANSWERED;
        printf("%d: makes block %d\n", q, number)
      }
#endif
    /* A blocked key is denied by the store itself: its pending denials are dropped. */
    :: d_step { p[q].report == ANSWERED ->
        if
        :: inForce -> p[q].pending = 0; p[q].sinceEnd = 0; p[q].sinceBegin = 0; p[q].old = 0
        :: else
        fi;
        forgetReport(q)
      }
    /* The report, or its answer, is lost. */
    :: d_step { p[q].report != NONE && !p[q].looked && lost < LOST -> lost++; forgetReport(q); printf("%d: gets no answer\n", q) }
    :: d_step { inForce ->
        inForce = false; ended++;
        /* All denials that were made until now are old. */
        i = 0;
        do
        :: i < PROCESSES -> p[i].old = p[i].pending; p[i].reportedOld = p[i].reported; i++
        :: else -> break
        od;
        i = 0;
        printf("block %d ends\n", number)
      }
    /* `forget` after the end of the last block. */
    :: d_step { !inForce && number > 0 -> number = 0; chain = 0; printf("the blocks are forgotten\n") }
    /* The window of the counted denials ends. */
    :: d_step { counted > 0 -> counted = 0; oldCounted = 0 }
    fi;
    q = 0
  od
}
