/*
 * Leases: processes buy units of a key in advance and spend them without asking. README.md explains the words, the
 * faults and the properties.

 * bucket.pml and window.pml describe the state of the server and its sales; processes.pml describes the state of a
 * process.
*/
/* The age of a lease counts from before its purchase was sent. The lease may be spent while its age is at most TTL. */
#if MUTANT_COUNTED_FROM_ANSWER
#define START_AGE(q) 0
#else
#define START_AGE(q) p[q].askedAge
#endif
#if MUTANT_EXPIRY_UNCHECKED
#define MAY_SPEND(q) (p[q].units > 0)
#else
#define MAY_SPEND(q) (p[q].units > 0 && p[q].age <= TTL)
#endif

inline older(counter, most) { counter = (counter < most -> counter + 1 : counter) }

inline tick() {
  i = 0;
  do
  :: i < PROCESSES ->
    if :: p[i].asked > 0 -> older(p[i].askedAge, DEAD) :: else fi;
    if :: p[i].units > 0 -> older(p[i].age, DEAD) :: else fi;
    if :: p[i].open -> older(p[i].soldAge, FORGOTTEN) :: else fi;
    i++
  :: else -> break
  od;
  i = 0;
  real_tick();
  server_tick()
}

/* Processes are interchangeable: states that differ only in their order are the same, so they are kept sorted. */
#define CODE(x) ((((((((((p[x].asked << 3) + p[x].askedAge) << 3) + p[x].bought << 3) + p[x].units << 3) + p[x].age << 3) + \
  p[x].unspent << 1) + p[x].again << 1) + p[x].open << 3) + p[x].soldAge << 3) + p[x].origin
#define SWAP(field) swap = p[i].field; p[i].field = p[i + 1].field; p[i + 1].field = swap
inline sort() {
  a = 1;
  do
  :: a < PROCESSES ->
    i = 0;
    do
    :: i < PROCESSES - a ->
      code = CODE(i);
      other = CODE(i + 1);
      if
      :: code < other ->
        SWAP(asked); SWAP(askedAge); SWAP(bought); SWAP(units); SWAP(age);
        SWAP(unspent); SWAP(again); SWAP(open); SWAP(soldAge); SWAP(origin)
      :: else
      fi;
      i++
    :: else -> break
    od;
    a++
  :: else -> break
  od;
  a = 0; i = 0; code = 0; other = 0; swap = 0
}

/* Which process acts; the rest of the choice says what it does. */
inline choose(q) {
  q = 0;
  do
  :: q < PROCESSES - 1 -> q++
  :: break
  od
}

active proctype world() {
  byte q = 0;
end:
  do
  /* Time may pass at any moment, so a message in flight may arrive later, or never. A lost message is one that is never
     delivered. */
  :: d_step { printf("a tick passes\n"); tick(); sort() }
  :: choose(q);
    if
    :: d_step { p[q].asked == 0 && p[q].units == 0 && p[q].unspent == 0 -> printf("%d: asks\n", q); p[q].asked = 1; p[q].askedAge = 0 }
    /* The server sells: one script call. Which of the leases of a process is open is known by its id, so the one before
       is not. */
    :: atomic { p[q].asked == 1 && available() > 0 ->
        n = 1;
        do
        :: n < available() -> n++
        :: break
        od;
        printf("server: sells %d to %d\n", n, q);
        sell(q, n);
        p[q].open = 1; p[q].soldAge = 0;
        p[q].bought = n; p[q].asked = 2; n = 0;
        /*
         * The sale decides requests that came before the purchase was sent: it lies between their asking and their
         * answer, so they are counted now, however late the answer comes. To count them at an answer that comes in time
         * is to spend from the lease at once.
        */
        do
        :: p[q].bought > 0 -> printf("server: allows with it a request that waits at %d\n", q); p[q].bought--; spend(1)
        :: break
        od;
        if :: p[q].bought == 0 -> p[q].asked = 0; p[q].askedAge = 0 :: else fi
      }
    /* The purchase is sold twice: no process gets the answer to the second copy. */
    :: d_step { p[q].asked == 2 && repeats < REPEATS && available() >= p[q].bought ->
        printf("server: sells %d to %d once more\n", p[q].bought, q);
        repeats++;
        sell(q, p[q].bought)
      }
    :: d_step { p[q].asked == 2 ->
        printf("%d: has bought %d, asked for %d ticks ago\n", q, p[q].bought, p[q].askedAge);
        p[q].units = p[q].bought; p[q].age = START_AGE(q);
        p[q].asked = 0; p[q].askedAge = 0; p[q].bought = 0
      }
#if MUTANT_LATER_REQUESTS
    /* The sale decides a request that comes after the purchase was sent, too: it is counted when it comes, at the
       earliest. */
    :: d_step { p[q].asked == 2 && p[q].bought > 0 ->
        printf("%d: a request comes, which an answer will allow that was asked for %d ticks ago\n", q, p[q].askedAge);
        p[q].bought--;
        spend(1)
      }
#endif
    /* A repeated purchase sells nothing after its lease has been given back, because the server still knows the lease.
       */
#if MUTANT_SOLD_AGAIN
    :: d_step { p[q].again && !p[q].open && repeats < REPEATS && available() > 0 ->
        printf("server: sells 1 to %d once more, under the name of the lease that came back\n", q);
        repeats++;
        sell(q, 1);
        p[q].open = 1; p[q].soldAge = 0
      }
#endif
    /* The purchase, or its answer, is given up; units that were sold are lost. */
    :: d_step { p[q].asked > 0 -> printf("%d: gives up its purchase\n", q); p[q].asked = 0; p[q].askedAge = 0; p[q].bought = 0 }
    :: d_step { MAY_SPEND(q) -> printf("%d: spends 1 of %d\n", q, p[q].units); p[q].units--; spend(1); if :: p[q].units == 0 -> p[q].age = 0 :: else fi }
    /* A process that was stopped does this late, or never. */
    :: d_step { p[q].units > 0 -> printf("%d: returns %d\n", q, p[q].units); p[q].unspent = p[q].units; p[q].units = 0; p[q].age = 0 }
    :: d_step { p[q].unspent > 0 ->
        printf("server: %d come back from %d, sold %d ticks ago\n", p[q].unspent, q, p[q].soldAge);
#if !MUTANT_RETURN_UNGUARDED
        if
        :: p[q].open && p[q].soldAge <= TTL + RETURNS_WITHIN -> take_back(q, p[q].unspent)
        :: else
        fi;
        p[q].open = 0; p[q].soldAge = 0;
#else
        take_back(q, p[q].unspent);
#endif
        if
        :: repeats < REPEATS && !p[q].again -> repeats++; p[q].again = 1
        :: else -> p[q].unspent = 0; p[q].again = 0
        fi
      }
    :: d_step { p[q].unspent > 0 -> p[q].unspent = 0; p[q].again = 0 }
    :: d_step { crashes < CRASHES ->
        printf("%d: dies\n", q);
        crashes++;
        p[q].units = 0; p[q].age = 0; p[q].bought = 0; p[q].asked = 0; p[q].askedAge = 0; p[q].unspent = 0; p[q].again = 0
      }
    fi;
    d_step { q = 0; sort() }
  /* A decision that Redis makes for now. */
  :: d_step { exact_fits() -> printf("server: spends 1 for now\n"); decide_exactly() }
  :: d_step { may_settle() -> printf("server: charges or settles a decision\n"); settle() }
  :: d_step { stepsBack < STEPS_BACK -> printf("the server's clock steps back\n"); stepsBack++; step_back(); sort() }
  :: d_step { stepsAhead < STEPS_AHEAD -> printf("the server's clock steps ahead\n"); stepsAhead++; step_ahead(); sort(); allowance = allowance + QUOTA }
  :: d_step { losses < LOSSES -> printf("the server loses its data\n"); losses++; lose_all(); sort(); allowance = allowance + LOSS }
  od
}
