import { type ComponentChildren, createContext } from 'preact'
import { useContext, useEffect, useRef, useState } from 'preact/hooks'
import { parsePolicy } from '../../../limiter/core/limit.js'
import { livePolicy } from '../../live/live-limit.js'
import { plural, policyWords, when } from '../look/format.js'
import type { ChangeRequest, ChangeResult, KeyView, LiveView } from '../view.js'
import { sendChange } from './connection.js'
import { ExactText } from './widgets.js'

/** Fields of a dialogue by name. */
type Values = Readonly<Record<string, string>>

interface Field {
  readonly name: string
  readonly label: string
  readonly value: string
  /** Choices; absent: a text is typed. */
  readonly choices?: ReadonlyArray<readonly [value: string, label: string]>
  readonly hint?: string
}

/** A change that is to be confirmed. */
export interface Plan {
  /** The title of the change, like 'Block a key'. */
  readonly title: string
  /** The action's own verb, on the button. */
  readonly verb: string
  readonly fields?: readonly Field[]
  /** One sentence: the effect of the change, on which key, until when. */
  readonly sentence: (values: Values) => ComponentChildren
  /** Why it cannot be done with these values; undefined: it can. */
  readonly problem?: (values: Values) => string | undefined
  readonly act: (values: Values) => ChangeRequest
}

interface Acting {
  /** False: the viewer may only look. */
  readonly may: boolean
  readonly noLive: string | undefined
  readonly processes: number
  readonly ask: (plan: Plan) => void
}

export const ActingContext = createContext<Acting>({ may: false, noLive: undefined, processes: 0, ask: () => {} })

/** A button that opens the dialogue of a change; nothing for users with access 'read'. */
export function ChangeButton({
  plan,
  children,
  kind = '',
}: {
  plan: () => Plan
  children: ComponentChildren
  kind?: 'first' | ''
}) {
  const { may, ask } = useContext(ActingContext)
  if (!may) return null
  return (
    <button type="button" class={`button ${kind}`} onClick={() => ask(plan())}>
      {children}
    </button>
  )
}

const DURATIONS: Field['choices'] = [
  ['10m', '10 minutes'],
  ['1h', '1 hour'],
  ['1d', '1 day'],
  ['7d', '7 days'],
]
const ENDS: Field['choices'] = [
  ['', 'until it is changed again'],
  ...(DURATIONS ?? []).map(([value, label]) => [value, `for ${label}`] as const),
]

/** '10 minutes' for '10m'. */
function durationLabel(value: string): string {
  return DURATIONS?.find(([known]) => known === value)?.[1] ?? value
}

/** Who else follows. */
function followers(processes: number): string {
  if (processes === 0) return 'Processes that run follow within a second.'
  return `${plural(processes, 'process follows', 'processes follow')} within a second.`
}

interface ShownResult {
  readonly text: string
  readonly undo?: ChangeRequest
}

/** The result of a change; its end by the clock of the reader. */
function resultOf({ text, until, undo }: ChangeResult): ShownResult {
  return { text: until === undefined ? text : `${text} Until ${when(until, Date.now())}.`, undo }
}

/** Asks for confirmation, carries the change out, and shows its result. */
export function useActing(done: () => void) {
  const [plan, setPlan] = useState<Plan | undefined>(undefined)
  const [result, setResult] = useState<ShownResult | undefined>(undefined)
  const carryOut = async (act: ChangeRequest): Promise<ChangeResult> => {
    const outcome = await sendChange(act)
    setResult(resultOf(outcome))
    done()
    return outcome
  }
  const undo = async (act: ChangeRequest) => {
    try {
      const { text } = resultOf(await carryOut(act))
      setResult({ text: `Undone: ${text}` })
    } catch (error) {
      setResult({ text: `Not undone: ${(error as Error).message}` })
    }
  }
  const elements = (
    <>
      {plan !== undefined && <Dialogue plan={plan} carryOut={carryOut} close={() => setPlan(undefined)} />}
      <div class="told" role="status">
        {result !== undefined && (
          <div>
            <span>{result.text}</span>
            {result.undo !== undefined && (
              <button type="button" class="link" onClick={() => result.undo !== undefined && undo(result.undo)}>
                Undo
              </button>
            )}
            <button type="button" class="link" onClick={() => setResult(undefined)} aria-label="Close this message">
              Close
            </button>
          </div>
        )}
      </div>
    </>
  )
  return { ask: setPlan, elements }
}

function Dialogue({
  plan,
  carryOut,
  close,
}: {
  plan: Plan
  carryOut: (act: ChangeRequest) => Promise<ChangeResult>
  close: () => void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [values, setValues] = useState<Values>(
    Object.fromEntries((plan.fields ?? []).map(({ name, value }) => [name, value])),
  )
  const [error, setError] = useState<string | undefined>(undefined)
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    const opener = document.activeElement as HTMLElement | null
    dialog.current?.showModal()
    return () => opener?.focus?.()
  }, [])
  const problem = plan.problem?.(values)
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy || problem !== undefined) return
    setBusy(true)
    try {
      await carryOut(plan.act(values))
      close()
    } catch (failure) {
      setError((failure as Error).message)
      setBusy(false)
    }
  }
  const set = (name: string) => (event: Event) => {
    setValues({ ...values, [name]: (event.currentTarget as HTMLInputElement).value })
    setError(undefined)
  }
  return (
    <dialog ref={dialog} aria-labelledby="dialogue-title" onClose={close} onCancel={close}>
      <form onSubmit={submit}>
        <h2 id="dialogue-title">{plan.title}</h2>
        {plan.fields?.map(field => (
          <div key={field.name} class="field">
            <label for={`field-${field.name}`}>{field.label}</label>
            {field.choices === undefined ? (
              <input
                id={`field-${field.name}`}
                value={values[field.name]}
                onInput={set(field.name)}
                spellcheck={false}
                autocomplete="off"
              />
            ) : (
              <select id={`field-${field.name}`} value={values[field.name]} onInput={set(field.name)}>
                {field.choices.map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            )}
            {field.hint !== undefined && <small>{field.hint}</small>}
          </div>
        ))}
        <div class="sentence">{problem ?? plan.sentence(values)}</div>
        {error !== undefined && (
          <p class="refused" role="alert">
            {error}
          </p>
        )}
        <div class="actions">
          <button type="submit" class="button main" disabled={busy || problem !== undefined}>
            {plan.verb}
          </button>
          <button type="button" class="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  )
}

export function Whom({ limiter, of }: { limiter: string; of: KeyView | undefined }) {
  if (of === undefined) return <strong>{limiter}</strong>
  return (
    <>
      <strong>{limiter}</strong> for <ExactText text={of.text} />
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

export function showPlan(of: KeyView): Plan {
  return {
    title: 'Show a key',
    verb: 'Show key',
    sentence: () => (
      <>
        <ExactText text={of.text} /> is shown whole, to you. The changes will say that you have seen it.
      </>
    ),
    act: () => ({ act: 'show-key', ref: of.ref }),
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
          <Whom limiter={limiter} of={of} />: now {describePolicy(policy)}; then{' '}
          <strong>{describePolicy(values.policy)}</strong>
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
function describePolicy(policy: string): string {
  return policyWords(parsePolicy(policy))
}

function problemOf(policy: string): string | undefined {
  try {
    if (policy.trim() === '') return 'Type a limit, like 100/1m.'
    describePolicy(policy)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** The limits of one policy that another has not, in words. */
function vanished(limiter: string, before: string, after: string): string {
  const kept = new Set(livePolicy(limiter, after).policy.map(({ name }) => name))
  const gone = livePolicy(limiter, before).policy.filter(({ name }) => !kept.has(name))
  return policyWords(gone)
}
