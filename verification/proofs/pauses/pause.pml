/*
  The pause of a partner, shared over Redis: README.md explains the words, the faults and the properties.

 * Pauses are numbered in the order in which partners ask for them, and resumes fall between them: a pause is ended if
 * its number is at most `ended`, the number of the newest pause when a resume was carried out. A number stands for the
 * moment at which a pause began.
*/
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef PAUSES
#define PAUSES 2
#endif
#ifndef RESUMES
#define RESUMES 2
#endif
#ifndef LOST
#define LOST 2
#endif

#define NONE 0
#define LOOK 1
#define BEGIN 2
#define RESUME 3

/* The record in Redis: the pause that holds, and the newest pause when the last resume was carried out. */
byte shared, resumed;
/* What really happened. */
byte newest, ended, resumes, lost;

typedef Process {
  byte own;       /* the pause that Redis has not confirmed yet */
  byte known;     /* the pause that Redis told */
  byte asked;     /* the script that is under way */
  byte carried;   /* the pause that it reports */
  bool answered;  /* the answer is under way */
  byte told;      /* the pause in the answer */
  byte askedAt;   /* `ended` when the script was sent */
  byte gone;      /* the newest pause when this process resumed last */
};
Process p[PROCESSES];

byte begunBy[PAUSES + 1];
/* A pause holds in the process that the partner told, until it is ended: by a resume that Redis has carried out, or by
   one in this process. */
#define HOLDS(q, number) (number <= ended || number <= p[q].gone || p[q].own >= number || p[q].known >= number)

byte i;
inline check() {
  i = 1;
  do
  :: i <= newest -> 
    assert(HOLDS(begunBy[i], i)); /* pause_kept */
    i++
  :: else -> break
  od;
  assert(shared == 0 || shared > ended); /* resume_kept */
  i = 0
}

inline choose(q) {
  q = 0;
  do
  :: q < PROCESSES - 1 -> q++
  :: break
  od
}

inline serve(q) {
  if
  :: p[q].asked == BEGIN ->
#if MUTANT_AGE_UNKNOWN
    if :: p[q].carried > shared -> shared = p[q].carried :: else fi
#else
    if :: p[q].carried > shared && p[q].carried > resumed -> shared = p[q].carried :: else fi
#endif
  :: p[q].asked == RESUME -> shared = 0; resumed = newest; ended = newest
  :: else
  fi;
  p[q].told = shared;
  p[q].answered = true
}

inline read(q) {
#if MUTANT_OLDER_ANSWER_KEPT
  if :: p[q].told > p[q].known -> p[q].known = p[q].told :: else fi;
#else
  p[q].known = p[q].told;
#endif
#if MUTANT_LOOK_CLEARS
  p[q].own = 0;
#else
  if :: p[q].asked == BEGIN && p[q].own == p[q].carried -> p[q].own = 0 :: else fi;
#endif
  assert(p[q].known == 0 || p[q].known > p[q].askedAt); /* resume_reaches_all */
  p[q].asked = NONE; p[q].carried = 0; p[q].answered = false; p[q].told = 0; p[q].askedAt = 0
}

active proctype world() {
  byte q = 0;
end:
  do
  :: choose(q);
    if
    /* The partner asks this process for a pause. */
    :: d_step { newest < PAUSES -> newest++; begunBy[newest] = q; p[q].own = newest; printf("%d: pause %d begins\n", q, newest); check() }
    /* It looks, and reports its own pause, if it has one. One script at a time: the connection keeps their order. */
    :: d_step { p[q].asked == NONE ->
        p[q].asked = (p[q].own > 0 -> BEGIN : LOOK);
        p[q].carried = p[q].own; p[q].askedAt = ended;
        printf("%d: asks %d\n", q, p[q].asked)
      }
    :: d_step { p[q].asked == NONE && resumes < RESUMES ->
        resumes++; p[q].asked = RESUME; p[q].askedAt = ended; p[q].own = 0; p[q].known = 0; p[q].gone = newest;
        printf("%d: resumes\n", q)
      }
    :: d_step { p[q].asked > NONE && !p[q].answered ->
        printf("server: carries out %d of %d\n", p[q].asked, q);
        serve(q);
        check()
      }
    :: d_step { p[q].answered -> printf("%d: reads %d\n", q, p[q].told); read(q); check() }
    /* The script, or its answer, is lost: the process knows what it knew. */
    :: d_step { p[q].asked > NONE && lost < LOST ->
        lost++;
        p[q].asked = NONE; p[q].carried = 0; p[q].answered = false; p[q].told = 0; p[q].askedAt = 0;
        printf("%d: gets no answer\n", q)
      }
    fi;
    q = 0
  od
}
