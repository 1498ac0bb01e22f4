interface Channel {
  readonly hasSubscribers: boolean
  publish(message: unknown): void
}

/** Where the runtime has no channels. */
const SILENT: Channel = { hasSubscribers: false, publish() {} }

// Read from the global object instead of imported: this module also runs where Node's modules do not exist.
const diagnostics = /* @__PURE__ */ globalThis.process?.getBuiltinModule?.('node:diagnostics_channel')
const channelNamed = (name: string): Channel => diagnostics?.channel(`spillway:${name}`) ?? SILENT

/** The channel of decisions: asked for each, where a property that is computed would cost more. */
export const DECIDED: Channel = /* @__PURE__ */ channelNamed('decided')

/**
 * An observer that publishes to `node:diagnostics_channel`, each event to the channel of this name after `spillway:`. It
 * has a method only while somebody subscribes to its channel, so that nothing is measured for nobody.
 */
export function publisher(channelOf: Readonly<Record<string, string>>): object {
  const getters = Object.entries(channelOf).map(([event, name]) => [
    event,
    { get: methodOf(event, channelNamed(name)) },
  ])
  return Object.defineProperties({}, Object.fromEntries(getters))
}

function methodOf(event: string, channel: Channel) {
  const publish = (...args: readonly unknown[]) => channel.publish({ event, ...named(event, args) })
  return () => (channel.hasSubscribers ? publish : undefined)
}

/** The arguments of a method of `Observer` by their names. */
function named(event: string, [first, second]: readonly unknown[]): object {
  if (event === 'decided') return { decision: first, limiter: second }
  return first instanceof Error ? { error: first } : ((first ?? {}) as object)
}
