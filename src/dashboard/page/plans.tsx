/** The changes that several pages offer, in words. */
import { parsePolicy } from '../../core/limit.js'
import { type LimitFacts, promiseWords } from '../look/format.js'
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

/** `now`: what holds now, in words; `text`: what the field begins with. */
export function limitPlan(limiter: string, now: string, text: string, processes: number, of?: KeyView): Plan {
  const whose = of === undefined ? {} : { ref: of.ref }
  return {
    title: of === undefined ? `Change the limit of ${limiter}` : `Give a key its own limit under ${limiter}`,
    verb: of === undefined ? 'Change the limit' : 'Give this limit',
    fields: [
      {
        name: 'policy',
        label: 'Limit',
        value: text,
        hint: 'As in code: 100/1m, 20/1s token-bucket burst=40, or several with ;',
      },
      { name: 'for', label: 'How long it holds', value: of === undefined ? '' : '1d', choices: ENDS },
    ],
    problem: values => problemOf(values.policy),
    sentence: values => (
      <>
        <Whom limiter={limiter} of={of} />: now {now}; then <strong>{wordsOf(values.policy)}</strong>
        {values.for === '' ? ', until it is changed again' : `, for ${durationLabel(values.for)}`}.{' '}
        {followers(processes)}
      </>
    ),
    act: values => ({
      act: 'set-limit',
      limiter,
      policy: values.policy.trim(),
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

/** A limit as it is typed: '100/1m token-bucket burst=20'. */
export function policyText(limits: readonly LimitFacts[]): string {
  return limits
    .map(({ quota, windowMs, burst, algorithm, calendar }) => {
      if (calendar !== undefined) return `${quota}/${calendar.window} tz=${calendar.timezone}`
      const words = [`${quota}/${durationText(windowMs)}`]
      if (algorithm !== 'sliding-window') words.push(algorithm)
      if (algorithm.endsWith('bucket') && burst !== quota) words.push(`burst=${burst}`)
      return words.join(' ')
    })
    .join('; ')
}

function durationText(ms: number): string {
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1000],
  ] as const) {
    if (ms % size === 0) return `${ms / size}${unit}`
  }
  return `${ms}ms`
}
