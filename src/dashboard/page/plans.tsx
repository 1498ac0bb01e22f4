/** The changes that several pages offer, in words. */
import { parsePolicy } from '../../core/limit.js'
import { livePolicy } from '../../live/live-policy.js'
import { promiseWords } from '../look/format.js'
import type { KeyView, LiveView } from '../view.js'
import { DURATIONS, durationLabel, ENDS, followers, type Plan } from './acting.js'

function Whom({ limiter, of }: { limiter: string; of: KeyView | undefined }) {
  if (of === undefined) return <strong>{limiter}</strong>
  return (
    <>
      <strong>{limiter}</strong> for{' '}
      <code class="key">
        <bdi>{of.text}</bdi>
      </code>
    </>
  )
}

export function blockPlan(limiter: string, of: KeyView, processes: number): Plan {
  return {
    title: `Block a key under ${limiter}`,
    verb: 'Block',
    fields: [{ name: 'for', label: 'For how long', value: '1h', choices: DURATIONS }],
    sentence: values => (
      <>
        <Whom limiter={limiter} of={of} />: blocked for {durationLabel(values.for)}. {followers(processes)}
      </>
    ),
    act: values => ({ act: 'block', limiter, ref: of.ref, for: values.for }),
  }
}

export function unblockPlan(limiter: string, of: KeyView, processes: number): Plan {
  return {
    title: `End the block under ${limiter}`,
    verb: 'Unblock',
    sentence: () => (
      <>
        <Whom limiter={limiter} of={of} />: not blocked any more; what it has spent stays spent. {followers(processes)}
      </>
    ),
    act: () => ({ act: 'unblock', limiter, ref: of.ref }),
  }
}

export function resetPlan(limiter: string, of: KeyView, processes: number): Plan {
  return {
    title: `Reset a key of ${limiter}`,
    verb: 'Reset',
    sentence: () => (
      <>
        <Whom limiter={limiter} of={of} />: has its whole quota again, at once. {followers(processes)} This cannot be
        undone.
      </>
    ),
    act: () => ({ act: 'reset', limiter, ref: of.ref }),
  }
}

/** `policy`: all limits that hold now, as they are typed. */
export function limitPlan(limiter: string, policy: string, processes: number, of?: KeyView): Plan {
  const whose = of === undefined ? {} : { ref: of.ref }
  return {
    title: of === undefined ? `Change the limits of ${limiter}` : `Give a key its own limits under ${limiter}`,
    verb: of === undefined ? 'Change the limits' : 'Give these limits',
    fields: [
      {
        name: 'policy',
        label: 'Limits',
        value: policy,
        hint: 'As in code: 100/1m, 20/1s token-bucket burst=40, or several with ;',
      },
      { name: 'for', label: 'How long it holds', value: of === undefined ? '' : '1d', choices: ENDS },
    ],
    problem: values => problemOf(values.policy),
    sentence: values => {
      const gone = vanished(limiter, policy, values.policy)
      return (
        <>
          <Whom limiter={limiter} of={of} />: now {wordsOf(policy)}; then <strong>{wordsOf(values.policy)}</strong>
          {values.for === '' ? ', until it is changed again' : `, for ${durationLabel(values.for)}`}.
          {gone !== '' && (
            <>
              {' '}
              <strong>No longer limited: {gone}.</strong>
            </>
          )}{' '}
          {followers(processes)}
        </>
      )
    },
    act: values => ({
      act: 'set-limit',
      limiter,
      policy: values.policy.trim(),
      ...(of === undefined && { over: policy }),
      ...(values.for !== '' && { for: values.for }),
      ...whose,
    }),
  }
}

export function clearPlan(limiter: string, live: LiveView, processes: number, of?: KeyView): Plan {
  return {
    title: of === undefined ? `Take back the limit of ${limiter}` : `Take back a key's own limit under ${limiter}`,
    verb: 'Take back',
    sentence: () => (
      <>
        <Whom limiter={limiter} of={of} />: now {live.words}; then <strong>{live.default}</strong>.{' '}
        {followers(processes)}
      </>
    ),
    act: () => ({ act: 'clear-limit', limiter, ...(of !== undefined && { ref: of.ref }) }),
  }
}

/** A policy in words. Only for one without `problemOf`. */
function wordsOf(policy: string): string {
  return parsePolicy(policy).map(promiseWords).join(' and ')
}

function problemOf(policy: string): string | undefined {
  try {
    if (policy.trim() === '') return 'Type a limit, like 100/1m.'
    wordsOf(policy)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** The limits of one policy that another has not, in words. */
function vanished(limiter: string, before: string, after: string): string {
  const kept = new Set(livePolicy(limiter, after).policy.map(({ name }) => name))
  const gone = livePolicy(limiter, before).policy.filter(({ name }) => !kept.has(name))
  return gone.map(promiseWords).join(' and ')
}
