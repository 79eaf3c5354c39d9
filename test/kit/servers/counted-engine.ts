import { createServer, request } from 'node:http'
import type { ExecutionContext } from 'ava'
import { listening } from '../actors/api.ts'
import { dockerAddress } from './docker.ts'

/** The real engine behind a line that notes every request; to be spoken to at `address`. Nothing is changed on the way. */
export async function countedEngine(t: Pick<ExecutionContext, 'teardown'>) {
  const url = new URL(dockerAddress.replace(/^tcp:/, 'http:'))
  const target = url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port }
  let asked: string[] = []
  const server = createServer((near, answer) => {
    asked.push(`${near.method} ${near.url?.split('?')[0]}`)
    const far = request({ ...target, method: near.method, path: near.url, headers: near.headers }, said => {
      answer.writeHead(said.statusCode!, said.headers)
      said.pipe(answer)
    })
    far.once('error', () => answer.destroy())
    near.pipe(far)
  })
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    address: (await listening(server)).replace('http', 'tcp'),
    /** The requests to the engine while `work` ran, in order. */
    async during(work: () => Promise<unknown>): Promise<string[]> {
      asked = []
      await work()
      return [...asked]
    },
  }
}
