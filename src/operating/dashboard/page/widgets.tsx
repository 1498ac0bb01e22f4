/** Small parts that several pages use. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { isDate, moment, percent, plural, span, when } from '../look/format.js'
import type { KeyView } from '../view.js'
import { addressText } from './address.js'

/** A key, with all that is known of it behind it. */
export function KeyLink({ of }: { of: KeyView }) {
  return (
    <a class="key" href={addressText({ page: 'keys', ref: of.ref })}>
      <bdi>{of.text}</bdi>
    </a>
  )
}

/** A key, or something else that is spelled exactly, as text. */
export function ExactText({ text }: { text: string }) {
  return (
    <code class="key">
      <bdi>{text}</bdi>
    </code>
  )
}

/** Who did it, if that is known, at the end of a sentence. */
export function By({ of, verb = ', by' }: { of: string | undefined; verb?: string }) {
  if (of === undefined) return null
  return (
    <>
      {verb} <bdi>{of}</bdi>
    </>
  )
}

/** Terms, each with its value. */
export function Facts({ of }: { of: ReadonlyArray<readonly [term: string, value: ComponentChildren, kind?: string]> }) {
  return (
    <dl class="facts">
      {of.map(([term, value, kind]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd class={kind}>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

export type BarKind = 'of-refused' | 'of-amber' | ''

/** The own name of a limit: what metrics, header fields and logs call it. */
export function OwnName({ of }: { of: string }) {
  return (
    <span class="tag plain">
      <bdi>{of}</bdi>
    </span>
  )
}

/** A share of a whole as a bar; the numbers stand beside it. */
export function Bar({ share, kind = '' }: { share: number; kind?: BarKind }) {
  return (
    <span class={`bar ${kind}`} aria-hidden="true">
      <i style={{ width: percentage(share) }} />
    </span>
  )
}

/** A bar with what it shows beside it, by itself the share in percent. */
export function Gauge({ share, kind, children }: { share: number; kind?: BarKind; children?: ComponentChildren }) {
  return (
    <span class="gauge">
      <Bar share={share} kind={kind} />
      <span>{children ?? percent(share)}</span>
    </span>
  )
}

function percentage(share: number): string {
  return `${Math.max(0, Math.min(100, share * 100))}%`
}

/** So long ago, and of more than a minute when that was; the full moment when the pointer rests on it. */
export function Ago({ at, now }: { at: number; now: number }) {
  const agoMs = now - at
  return (
    <Moment at={at}>
      {agoMs < 1500 ? 'now' : `${span(agoMs)} ago`}
      {agoMs > 60_000 && isDate(at) && <span class="muted"> ({when(at, now)})</span>}
    </Moment>
  )
}

/** A time in words, with the full moment behind it. */
export function Moment({ at, children }: { at: number; children: ComponentChildren }) {
  if (!isDate(at)) return <>{children}</>
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at)}>
      {children}
    </time>
  )
}

export function Panel({
  title,
  heading,
  side,
  actions,
  children,
}: {
  title: string
  /** What stands as its heading; default: the title. */
  heading?: ComponentChildren
  side?: ComponentChildren
  /** Buttons beside the heading. */
  actions?: ComponentChildren
  children: ComponentChildren
}) {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{heading ?? <bdi>{title}</bdi>}</h2>
        {side !== undefined && <span class="muted">{side}</span>}
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

/** What a page leaves out. */
export function More({ count, of }: { count: number; of: string }) {
  return count > 0 ? <p class="body muted">and {plural(count, `more ${of}`)}</p> : null
}

/** What to say where there is nothing. */
export function Nothing({ children }: { children: ComponentChildren }) {
  return <div class="body nothing">{children}</div>
}

/** Code to copy. */
export function Code({ text }: { text: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 2000)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <div class="code">
      <pre>
        <code>{text}</code>
      </pre>
      <button
        type="button"
        class="button"
        onClick={() => navigator.clipboard?.writeText(text).then(() => setCopied(true))}
      >
        {copied ? 'Copied' : 'Copy'}
      </button>
    </div>
  )
}

/** A share that matters is coloured, one that does not is quiet. */
export function Share({ of, kind = 'refused' }: { of: number; kind?: 'refused' | 'amber' }) {
  return <span class={of > 0 ? kind : 'muted'}>{percent(of)}</span>
}
