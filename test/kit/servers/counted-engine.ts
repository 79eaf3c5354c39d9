import { createServer, request, type ServerResponse } from 'node:http'
import type { ExecutionContext } from 'ava'
import { listening } from '../actors/api.ts'
import { dockerAddress } from './docker.ts'

/** The real engine behind a line that notes every request, and loses or breaks those it is told to; to be spoken to at `address`. */
export async function countedEngine(t: Pick<ExecutionContext, 'teardown'>, engine = dockerAddress) {
  const url = new URL(engine.replace(/^tcp:/, 'http:'))
  const target = url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port }
  let asked: string[] = []
  let isLost = (_path: string) => false
  const open = new Map<ServerResponse, string>()
  const server = createServer((near, answer) => {
    const path = near.url!.split('?')[0]!
    asked.push(`${near.method} ${path}`)
    if (isLost(path)) return
    const far = request({ ...target, method: near.method, path: near.url, headers: near.headers }, said => {
      answer.writeHead(said.statusCode!, said.headers)
      said.pipe(answer)
    })
    far.once('error', () => answer.destroy())
    near.pipe(far)
    open.set(answer, path)
    answer.once('close', () => {
      open.delete(answer)
      far.destroy()
    })
  })
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    address: (await listening(server)).replace('http', 'tcp'),
    /** From now on requests for these paths are never answered. */
    loses(which: (path: string) => boolean): void {
      isLost = which
    },
    /** Breaks what is being answered to requests for these paths. */
    breaks(which: (path: string) => boolean): void {
      for (const [answer, path] of open) if (which(path)) answer.destroy()
    },
    /** The requests to the engine while `work` ran, in order. */
    async during(work: () => Promise<unknown>): Promise<string[]> {
      asked = []
      await work()
      return [...asked]
    },
  }
}
