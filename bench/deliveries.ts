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

/** Sends at a fixed pace, whatever the answers take, round the targets; resolves to the milliseconds of each answer. Throws for any but 200. */
export async function sendAtPace(targets: Target[], perSecond: number, seconds: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 200 })
  const begun = performance.now()
  const answers: Promise<number>[] = []
  for (let i = 0; i < perSecond * seconds; i++) {
    const due = begun + (i * 1000) / perSecond
    if (due > performance.now()) await sleep(due - performance.now())
    const target = targets[i % targets.length]!
    answers.push(send(target, push(target.secret, `b${i % 7}`), agent))
  }
  const figures = await Promise.all(answers)
  agent.destroy()
  return figures
}

function send({ url }: Target, { body, headers }: ReturnType<typeof push>, agent: Agent): Promise<number> {
  const begun = performance.now()
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', headers, agent }, answer => {
      let text = ''
      answer.setEncoding('utf8').on('data', piece => {
        text += piece
      })
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(performance.now() - begun)
        else reject(new Error(`${answer.statusCode} ${text}`))
      })
    })
    call.on('error', reject).end(body)
  })
}
