/* Each mutant removes one rule of the protocol. The checker must then find a schedule that violates a property. */
#ifdef MUTANT_NO_NUMBERS
#define SAME_NUMBER(x) (0)
#define NEXT_NUMBER(x) (record[mine] == OPEN)
#else
#define SAME_NUMBER(x) (x)
#define NEXT_NUMBER(x) (x)
#endif
#ifdef MUTANT_EVICTED_LOSES_NUMBER
#define FORGET_EVICTED(m) record[m] = NO_RECORD; behind[m] = 0; hasWaiters[m] = 0; keptAge[m] = 0
#else
#define FORGET_EVICTED(m) skip
#endif
#ifdef MUTANT_NEW_TICKET
#define BRINGS_TICKET(x) 0
#else
#define BRINGS_TICKET(x) (x)
#endif
#ifdef MUTANT_NOTHING_RESERVED
#define RESERVE(w) skip
#else
#define RESERVE(w) reserve(w)
#endif
#ifdef MUTANT_LATE_IS_USED
#define LATE_IS_USED 1
#else
#define LATE_IS_USED 0
#endif
#ifdef MUTANT_AGE_HIDDEN
#define TOLD_AGE(a) 0
#else
#define TOLD_AGE(a) (a)
#endif
#ifdef MUTANT_OLDEST_GIVEN_BACK
#define GIVE_BACK(own, oldest) (oldest)
#else
#define GIVE_BACK(own, oldest) (own)
#endif
#ifdef MUTANT_FITTING_NOT_NOTIFIED
#define NOTIFY_FIT(m) WATCH(m)
#else
#define NOTIFY_FIT(m) notify(m, 0)
#endif
#ifdef MUTANT_NO_WATCH
#define WATCH(m) skip
#else
#define WATCH(m) watch(m)
#endif
#ifdef MUTANT_NO_WATCHER
#define TELL_WATCHER(asker) skip
#else
#define TELL_WATCHER(asker) tellWatcher(asker)
#endif
#ifdef MUTANT_ASKER_ALWAYS_WATCHES
#define ASKER_WATCHES(asker) ((asker) != NOBODY)
#else
#define ASKER_WATCHES(asker) ((asker) != NOBODY && (inLine[(asker) % 2] & OWN((asker) / 2)))
#endif
#ifdef MUTANT_LEAVING_ASKER_WATCHES
#define ASKER_EXCLUDED(asker) 0
#else
#define ASKER_EXCLUDED(asker) BIT((asker) / 2)
#endif
#ifdef MUTANT_ONE_WATCHER
#define IS_HEARD(p) 1
#else
#define IS_HEARD(p) (state[p] == RUNS || state[p] == STOPPED)
#endif
#ifdef MUTANT_EVICTED_NOT_TOLD
#define TELL_EVICTED(m) skip
#else
#define TELL_EVICTED(m) publish((m) / 2)
#endif
#ifdef MUTANT_NO_OWN_TURN
#define OWN_TIMER(t) CHECK
#else
#define OWN_TIMER(t) (t)
#endif
#ifdef MUTANT_OWN_TURN_BEFORE_STOP
#define OWN_AFTER_STOP skip
#else
#define OWN_AFTER_STOP t = (stoppedFor > t -> stoppedFor : t)
#endif
#ifdef MUTANT_NOBODY_EVICTED
#define EVICTABLE(m) 0
#else
#define EVICTABLE(m) (askBy[m] == 0)
#endif
#ifdef MUTANT_ONE_LIMIT_UNCHECKED
#define LIMIT_CHECKED(l) ((l) == 0)
#else
#define LIMIT_CHECKED(l) 1
#endif
#ifdef MUTANT_HIGHER_LIMIT_OVERTAKES
#define KEPT_FOR_ANOTHER(w) 0
#else
#define KEPT_FOR_ANOTHER(w) (keptFor != 0 && keptFor != QUOTA_OF(w))
#endif
#ifdef MUTANT_ABORT_FORGOTTEN
#define ON_ABORT(w) if :: aJoin & BIT(w) -> skip :: else -> toLeave = toLeave | BIT(w) fi
#else
#define ON_ABORT(w) toLeave = toLeave | BIT(w)
#endif
#ifdef MUTANT_ABSENT_IS_GRANTED
#define ON_UNKNOWN(p) w_ = 0; do :: w_ < NW -> if :: waiting & OWN(p) & BIT(w_) -> begin(w_) :: else fi; w_++ :: else -> break od
#else
#define ON_UNKNOWN(p) skip
#endif
#ifdef MUTANT_REPLACED_STAYS_OPEN
#define CLOSE_REPLACED(m) skip
#else
#define CLOSE_REPLACED(m) record[m] = CLOSED; behind[m] = 3
#endif
#ifdef MUTANT_RECORD_GOES_WITH_WAITERS
#define FORGET_WITHOUT_WAITERS(m) if :: !hasWaiters[m] -> record[m] = NO_RECORD :: else fi
#else
#define FORGET_WITHOUT_WAITERS(m) skip
#endif
#ifdef MUTANT_WALK_BEFORE_LEAVES
#define LEAVES_FIRST(statement) skip
#else
#define LEAVES_FIRST(statement) statement
#endif
#ifdef MUTANT_NO_STAMP
#define SAME_STAMP(m, st) 1
#elif LOSSES
#define SAME_STAMP(m, st) (stamp[m] == (st))
#else
#define SAME_STAMP(m, st) 1
#endif
#if LOSSES
#define MARK_STAMP(m) stamp[m] = losses
#define STAMP(m) stamp[m]
#else
#define MARK_STAMP(m) skip
#define STAMP(m) 0
#endif
#ifdef MUTANT_CHANGE_NOT_TOLD
#define TELL_CHANGE 0
#else
#define TELL_CHANGE 1
#endif
#ifdef MUTANT_NO_CHECK
#define NO_NEXT NEVER
#else
#define NO_NEXT CHECK
#endif
#ifdef MUTANT_LEASE_FROM_ANSWER
#define LEASE_AGE(a) 0
#else
#define LEASE_AGE(a) (a)
#endif
#ifdef MUTANT_UNREAD_FORGOTTEN
#define RETURNS_UNUSED(w) skip
#else
#define RETURNS_UNUSED(w) toReturn = toReturn | BIT(w)
#endif
#ifdef MUTANT_NEWCOMERS_OVERTAKE
#define LINE_EMPTY 1
#else
#define LINE_EMPTY ((inLine[0] | inLine[1]) == 0)
#endif
#if defined(MUTANT_NEWCOMERS_BLIND) || defined(MUTANT_NEWCOMERS_OVERTAKE)
#define NEWCOMER_SEES_LINE ahead[0] = 0
#else
#define NEWCOMER_SEES_LINE skip
#endif
#ifdef MUTANT_ESTIMATE_ROUNDED_UP
#define ROUNDED(t) (((t) + INTERVAL - 1) / INTERVAL * INTERVAL)
#else
#define ROUNDED(t) (t)
#endif
#ifdef MUTANT_PROMISE_TOO_LONG
#define TOLD(t) ((t) + 1)
#else
#define TOLD(t) (t)
#endif
#ifdef MUTANT_PUSHED
#define GRANT_OTHER(m, w) spend(w); pushed = pushed | BIT(w); inLine[(m) % 2] = inLine[(m) % 2] & ~BIT(w); publish((m) / 2)
#define TAKE_PUSHED(p) w_ = 0; do :: w_ < NW -> if :: pushed & waiting & OWN(p) & BIT(w_) -> begin(w_) :: else fi; w_++ :: else -> break od; pushed = pushed & ~OWN(p)
#else
#define GRANT_OTHER(m, w) RESERVE(w); NOTIFY_FIT(m)
#define TAKE_PUSHED(p) skip
#endif
#ifdef MUTANT_BEGINS_AT_TIMER
#define ON_TIMER(p) w_ = 0; do :: w_ < NW -> if :: waiting & told & OWN(p) & BIT(w_) -> begin(w_); break :: else fi; w_++ :: else -> break od
#else
#define ON_TIMER(p) skip
#endif
#ifdef MUTANT_USES_EVERY_GRANT
#define STILL_WAITS(w) 1
#else
#define STILL_WAITS(w) (waiting & BIT(w))
#endif
#ifdef MUTANT_CLOSE_DOES_NOT_ASK
#define CLOSES_AT_ONCE(p) 1
#else
#define CLOSES_AT_ONCE(p) 0
#endif
