import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'

/** Where Node's inspector listens in a process that gets SIGUSR1, so only one process at a time can be asked. */
const inspector = 'http://127.0.0.1:9229/json'

/** Bytes of a Node process that are in use once its garbage is collected: objects, buffers, and what modules hold. */
export async function liveMemory(pid: number): Promise<number> {
  process.kill(pid, 'SIGUSR1')
  const socket = new WebSocket(await inspectorUrl())
  await once(socket, 'open')
  const evaluate = async (expression: string): Promise<unknown> => {
    const params = { expression, includeCommandLineAPI: true, returnByValue: true }
    const { result } = await call<{ result: { value: unknown } }>(socket, 'Runtime.evaluate', params)
    return result.value
  }
  try {
    await call(socket, 'HeapProfiler.collectGarbage')
    await sleep(200) // finalizers free what is outside the heap
    await call(socket, 'HeapProfiler.collectGarbage')
    return Number(await evaluate('{ const { heapUsed, external } = process.memoryUsage(); heapUsed + external }'))
  } finally {
    // `require` exists only while the expression is evaluated.
    await evaluate(`{ const inspector = require('inspector'); setTimeout(() => inspector.close(), 50); 'closing' }`)
    socket.terminate()
    await sleep(200) // the port is free for the next process
  }
}

async function inspectorUrl(): Promise<string> {
  for (let tries = 0; tries < 100; tries++) {
    const targets = await fetch(inspector)
      .then(response => response.json() as Promise<[{ webSocketDebuggerUrl: string }]>)
      .catch(() => undefined)
    if (targets) return targets[0].webSocketDebuggerUrl
    await sleep(50)
  }
  throw new Error(`The inspector does not answer at ${inspector}.`)
}

let calls = 0

/** One call of the protocol, see https://chromedevtools.github.io/devtools-protocol/. */
function call<T>(socket: WebSocket, method: string, params = {}): Promise<T> {
  const id = ++calls
  socket.send(JSON.stringify({ id, method, params }))
  return new Promise(resolve => {
    const take = (data: unknown) => {
      const message = JSON.parse(String(data))
      if (message.id !== id) return
      socket.off('message', take)
      resolve(message.result)
    }
    socket.on('message', take)
  })
}
