import { once } from 'node:events'
import { connect } from 'node:net'

/** A command that a server has run. */
export interface SeenCommand {
  /** Its name and arguments. Bytes that are not printable stand as MONITOR shows them. */
  readonly args: string[]
  readonly byScript: boolean
}

/** Tells `seen` of every command that a server of this machine runs from now on. Returns the function that ends it. */
export async function monitor(port: number, seen: (command: SeenCommand) => void): Promise<() => void> {
  const socket = connect({ port, host: '127.0.0.1' }).setEncoding('utf8')
  await once(socket, 'connect')
  let rest = ''
  const started = new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    // Not over a client: it may take the first reported commands, which arrive together with the answer to MONITOR, for
    // answers to other commands.
    socket.on('data', (text: string) => {
      const lines = (rest + text).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line === '+OK') resolve()
        else seen(commandOf(line))
      }
    })
  })
  socket.write('MONITOR\r\n')
  await started
  return () => socket.destroy()
}

/** Of a line like `+1795392490.79 [0 127.0.0.1:34068] "get" "key"`. */
function commandOf(line: string): SeenCommand {
  const args = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text.replace(/\\(["\\])/g, '$1'))
  return { args, byScript: /^\S+ \[\d+ lua\]/.test(line) }
}
