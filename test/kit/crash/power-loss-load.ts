import { randomBytes, randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createUser } from '../../../db/accounts/accounts.ts'
import { type Db, openDatabase } from '../../../db/database.ts'
import { type Actor, actors } from '../actors/api.ts'
import { chunkedAs, fullPart } from '../actors/chunked.ts'
import { formOf } from '../actors/sent-files.ts'
import type { GitServer, TestRepository } from '../git/git-server.ts'
import type { Info } from '../platform/installation.ts'
import { configOf, nodeProgram } from '../programs.ts'
import { zipOf } from '../zips.ts'
import { Answered } from './answered.ts'
import { S3Load, s3Kinds } from './power-loss-s3.ts'

interface Made {
  id: string
  domain: string
}

/** What is answered for, and counted. */
const kinds = [
  ...(['objects', 'deletions', 'parts', 'completions', 'files', 'pushes', 'creations', 'mails'] as const),
  ...s3Kinds,
]

/** Everything that clients do concurrently, and the answers that they got. */
export class PowerLossLoad {
  readonly #git: GitServer
  known!: Info
  api!: Actor
  blob!: Actor
  #going = false
  readonly objects = new Answered<Buffer>()
  readonly files = new Answered<Buffer>()
  readonly uploads = new Answered<Map<number, Buffer>>()
  readonly apps = new Answered<string>()
  readonly mails = new Set<string>()
  /** How much of each kind was answered. */
  readonly counts: Record<(typeof kinds)[number], number> = Object.fromEntries(kinds.map(kind => [kind, 0])) as never
  readonly s3 = new S3Load(kind => this.counts[kind]++)
  /** Operations by id, with what each is. */
  readonly operations = new Map<string, string>()
  readonly deployments = new Set<string>()
  /** Of applications. */
  readonly domains = new Map<string, string>()
  /** Ids of objects by name. */
  readonly objectIds = new Map<string, string>()
  /** The application whose files are written. */
  target!: Made
  #pushed!: Made & { repository: TestRepository }
  readonly #people: string[] = []
  #hook = ''

  constructor(git: GitServer) {
    this.#git = git
  }

  /** Where the platform answers now. */
  async at(known: Info): Promise<void> {
    this.known = known
    this.api = actors(known.base_url as string).as(known.api_key as string)
    this.blob = actors(known.blob_url as string).as(known.api_key as string)
    await this.s3.at(this.blob, known.s3_url as string)
  }

  /** What the load needs in addition: an application whose files are written, and one that is pushed to. */
  async prepare(): Promise<void> {
    this.target = await this.#create('the files')
    const pushed = await this.#create('version 0')
    const answer = await this.api.post(`/v2/apps/${pushed.id}/deploy/webhook`, JSON.stringify({ access_token: 'none' }))
    if (answer.status !== 200) throw new Error(answer.text)
    const repository = await this.#git.repository({ files: nodeProgram('version 0').files })
    this.#pushed = { ...pushed, repository }
    this.#hook = new URL(answer.body.response.webhook).pathname
  }

  /** So many more people, who ask for mail one after the other. */
  invite(people: number): Promise<void> {
    return inDatabase(this.known, async db => {
      for (let n = 0; n < people; n++) {
        const email = `${randomBytes(6).toString('hex')}@example.org`
        await createUser(db, { name: 'Somebody', email, plan: 'free' })
        this.#people.push(email)
      }
    })
  }

  /** Runs until the returned function is called, which resolves once all answers have arrived. */
  start(): () => Promise<void> {
    this.#going = true
    for (const kind of kinds) this.counts[kind] = 0
    const clients = [
      this.#again(() => this.#putObject(randomInt(1, 8000), 'small-a')),
      this.#again(() => this.#putObject(randomInt(1, 8000), 'small-b')),
      this.#again(() => this.#putObject(randomInt(100_000, 2_000_000), 'large')),
      this.#again(() => this.#inParts()),
      ...this.s3.clients.map(act => this.#again(act, 20)),
      this.#again(() => this.#writeFile()),
      this.#again(() => this.#push(), 300),
      this.#again(() => this.#createOrDelete(), 1500),
      this.#again(() => this.#askForMail(), 100),
    ]
    return async () => {
      this.#going = false
      await Promise.all(clients)
    }
  }

  /** Resolves once something of each kind was answered. */
  async everyKind(): Promise<void> {
    for (const deadline = Date.now() + 120_000; Object.values(this.counts).includes(0); await sleep(50))
      if (Date.now() > deadline) throw new Error(`Not everything is answered: ${JSON.stringify(this.counts)}`)
  }

  /** One after the other, until an answer does not come: nothing is owed for it. */
  async #again(act: () => Promise<unknown>, pauseMs = 0): Promise<void> {
    for (let answered = true; this.#going && answered; await sleep(pauseMs))
      answered = await act().then(
        () => true,
        () => false,
      )
  }

  /** Whether something was answered as done. */
  #done(kind: (typeof kinds)[number], { status }: { status: number }): boolean {
    if (status === 200) this.counts[kind]++
    return status === 200
  }

  #round = 0
  async #putObject(bytes: number, kind: string): Promise<void> {
    const number = ++this.#round
    const names = this.objects.names().filter(name => name.startsWith(kind))
    const old = names[randomInt(names.length + 1)]
    if (old && number % 5 === 0 && this.objects.last(old)) {
      const id = this.objectIds.get(old)!
      return this.objects.change(old, null, async () =>
        this.#done(
          'deletions',
          await this.blob.request('DELETE', '/v1/objects', { body: JSON.stringify({ object: id }) }),
        ),
      )
    }
    const name = old && number % 3 === 0 ? old : `${kind}-${number}`
    const body = randomBytes(bytes)
    await this.objects.change(name, body, async () => {
      const query = new URLSearchParams({ name, prefix: 'load', overwrite: 'true' })
      const answer = await this.blob.post(`/v1/objects?${query}`, formOf({ bytes: body, fileName: 'body.bin' }))
      if (answer.status === 200) this.objectIds.set(name, answer.body.response.id)
      return this.#done('objects', answer)
    })
  }

  async #inParts(): Promise<void> {
    const chunked = chunkedAs(this.blob)
    const name = `parts-${++this.#round}`
    const init = await chunked.init({ name, prefix: 'load', filename: 'body.bin' })
    if (init.status !== 200) return
    const { upload, id } = init.body.response
    const parts = new Map<number, Buffer>()
    this.uploads.settle(upload, parts)
    this.objectIds.set(name, id)
    for (const [number, body] of [fullPart(), randomBytes(70_000)].entries())
      await this.uploads.change(upload, new Map([...parts, [number + 1, body]]), async () => {
        const answer = await chunked.part(upload, number + 1, body)
        if (answer.status === 200) parts.set(number + 1, body)
        return this.#done('parts', answer)
      })
    const whole = Buffer.concat([...parts.values()])
    await this.uploads.change(upload, null, async () => {
      let completed = false
      await this.objects.change(name, whole, async () => {
        completed = this.#done('completions', await chunked.complete(upload))
        return completed
      })
      return completed
    })
  }

  async #writeFile(): Promise<void> {
    const number = ++this.#round
    const path = `written/${number % 7}/${number % 20}.bin`
    const to = number % 6 === 0 ? null : randomBytes(randomInt(1, 50_000))
    if (to === null && !this.files.last(path)) return
    await this.files.change(path, to, async () => {
      const body = JSON.stringify({ path, ...(to && { content: to.toString('base64'), encoding: 'base64' }) })
      return this.#done(
        'files',
        await this.api.request(to ? 'PUT' : 'DELETE', `/v2/apps/${this.target.id}/files`, { body }),
      )
    })
  }

  async #push(): Promise<void> {
    const { id, repository } = this.#pushed
    const text = `version ${++this.#round}`
    repository.hook = { url: (this.known.base_url as string) + this.#hook, provider: 'github' }
    await this.apps.change(id, text, async () => {
      const { reply } = await repository.push(nodeProgram(text).files)
      if (!reply || !this.#done('pushes', reply)) return false
      this.deployments.add(/deployment ([0-9a-f]{32})/.exec(reply.text)![1]!)
      return true
    })
  }

  async #createOrDelete(): Promise<void> {
    const mine = this.apps.names().filter(id => this.apps.last(id)?.startsWith('created'))
    const old = mine[0]
    if (mine.length > 2 && old)
      return this.apps.change(old, null, async () => this.#done('deletions', await this.api.delete(`/v2/apps/${old}`)))
    await this.#create(`created ${++this.#round}`)
  }

  async #create(text: string): Promise<Made> {
    const program = nodeProgram(text)
    const lines = Object.entries(configOf(program)).map(([name, value]) => `${name}=${value}`)
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(zipOf({ 'berth.app': lines.join('\n'), ...program.files }))]), 'a.zip')
    const answer = await this.api.post('/v2/apps', form)
    if (!this.#done('creations', answer)) throw new Error(answer.text)
    const { id, domain } = answer.body.response
    this.domains.set(id, domain)
    this.operations.set(answer.headers.get('x-operation-id') as string, `the creation of "${text}"`)
    await this.apps.change(id, text, async () => true)
    return { id, domain }
  }

  async #askForMail(): Promise<void> {
    const email = this.#people.pop()
    if (!email) return
    const answer = await this.api.post('/v2/account/sign-in', JSON.stringify({ email }))
    if (this.#done('mails', answer)) this.mails.add(email)
  }
}

/** The database of a platform, for what no client sees. */
export async function inDatabase(known: Info, work: (db: Db) => Promise<void>): Promise<void> {
  const db = openDatabase({ url: known.database_url as string, pool: 1 })
  await work(db).finally(() => db.destroy())
}
