import { runInNewContext } from 'node:vm'
import { type BuildOptions, build } from 'esbuild'
import { root } from '../support/files.js'

const ENTRY = 'program.js'

/**
 * What a browser, an edge runtime or a worker has without any compatibility with Node: no `process`, no `Buffer`, no
 * `setImmediate`, no `require`.
 */
export const webGlobals = () => ({
  AbortController,
  AbortSignal,
  atob,
  Blob,
  clearInterval: (timer: number) => clearInterval(timer),
  clearTimeout: (timer: number) => clearTimeout(timer),
  console,
  crypto,
  EventTarget,
  fetch,
  Headers,
  performance,
  queueMicrotask,
  ReadableStream,
  Request,
  Response,
  // Timers are numbers there.
  setInterval: (act: () => void, ms: number) => setInterval(act, ms).unref()[Symbol.toPrimitive](),
  setTimeout: (act: () => void, ms: number) => setTimeout(act, ms).unref()[Symbol.toPrimitive](),
  TextDecoder,
  TextEncoder,
  TransformStream,
  URL,
})

/** Runs a bundle that leaves a promise of some text in `answer`, without anything of Node. */
export async function runOnWeb(code: string): Promise<unknown> {
  const world = { ...webGlobals(), answer: Promise.resolve('') }
  runInNewContext(code, world)
  return JSON.parse(await world.answer)
}

export interface Bundle {
  readonly code: string
  /** What is left to import when it runs. */
  readonly imports: readonly string[]
  /** The files of which something is in it, from the root. */
  readonly files: readonly string[]
}

/** A program of a user, who has the package as it is built, in one file. */
export async function bundled(program: string, options: BuildOptions = {}): Promise<Bundle> {
  const { outputFiles, metafile, warnings } = await build({
    stdin: { contents: program, resolveDir: root, sourcefile: ENTRY },
    absWorkingDir: root,
    bundle: true,
    platform: 'browser',
    ...options,
    metafile: true,
    write: false,
    logLevel: 'silent',
  })
  // A user would see it at each build. (Of modules of Node, which the browser platform replaces by empty ones, esbuild
  // warns before it drops them.)
  const bare = warnings.filter(({ id }) => id === 'ignored-bare-import')
  if (bare.length > 0) throw new Error(`the bundle warns: ${bare.map(({ text }) => text).join('; ')}`)
  const [{ imports, inputs }] = Object.values(metafile.outputs)
  return {
    code: outputFiles[0].text,
    imports: imports.map(({ path }) => path),
    files: Object.keys(inputs).filter(file => inputs[file].bytesInOutput > 0),
  }
}
