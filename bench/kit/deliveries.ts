import { createHmac, randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** One push of the size that providers usually send, 7.7 KB, as GitHub signs it. */
function push(secret: string, branch: string): { body: string; headers: Record<string, string> } {
  const body = JSON.stringify({
    ref: `refs/heads/${branch}`,
    after: randomUUID().replaceAll('-', '').padEnd(40, '0'),
    repository: { owner: { login: 'ana' }, full_name: 'ana/shop', clone_url: 'https://git.example.org/ana/shop.git' },
    commits: Array.from({ length: 10 }, (_, i) => ({ id: String(i).padStart(40, '0'), message: 'x'.repeat(690) })),
  })
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    },
  }
}

export interface Target {
  url: string
  secret: string
}

export interface Delivery {
  ms: number
  /** False = refused with 503. */
  stored: boolean
}

/** Sends at a fixed pace, whatever the answers take, round the targets; resolves to how each was answered. */
export async function sendAtPace(targets: Target[], perSecond: number, seconds: number): Promise<Delivery[]> {
  // As many connections as there are pushes under way: none waits here for another.
  const agent = new Agent({ keepAlive: true })
  const startedAt = performance.now()
  const answers: Promise<Delivery>[] = []
  for (let i = 0; i < perSecond * seconds; i++) {
    const due = startedAt + (i * 1000) / perSecond
    if (due > performance.now()) await sleep(due - performance.now())
    const target = targets[i % targets.length]!
    answers.push(send(target, push(target.secret, `b${i % 7}`), agent))
  }
  const figures = await Promise.all(answers)
  agent.destroy()
  return figures
}

function send({ url }: Target, { body, headers }: ReturnType<typeof push>, agent: Agent): Promise<Delivery> {
  const startedAt = performance.now()
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', headers, agent }, answer => {
      let text = ''
      answer.setEncoding('utf8').on('data', piece => {
        text += piece
      })
      answer.on('end', () => {
        const { statusCode } = answer
        // Busy is an answer, which a provider repeats; whatever else it is, the bench is wrong.
        if (statusCode === 200 || statusCode === 503)
          resolve({ ms: performance.now() - startedAt, stored: statusCode === 200 })
        else reject(new Error(`${statusCode} ${text}`))
      })
    })
    call.on('error', reject).end(body)
  })
}
