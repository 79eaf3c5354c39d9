import { setTimeout as sleep } from 'node:timers/promises'
import { requestApp } from '../../../cli/client/client.ts'

export interface Prober {
  /** Ends the probing; returns the number of requests and the failures. */
  stop(): Promise<{ asked: number; failures: string[] }>
}

/** Sends requests to an application through the proxy, every `everyMs`, one at a time. */
export function probe(edgeUrl: string, domain: string, everyMs = 20): Prober {
  const failures: string[] = []
  let asked = 0
  let going = true
  const target = { baseUrl: '', apiKey: '', edgeUrl }
  const loop = (async () => {
    while (going) {
      asked++
      await requestApp(target, domain).then(
        ({ status }) => status !== 200 && failures.push(`status ${status}`),
        error => failures.push(String(error)),
      )
      await sleep(everyMs)
    }
  })()
  return {
    async stop() {
      going = false
      await loop
      return { asked, failures }
    },
  }
}
