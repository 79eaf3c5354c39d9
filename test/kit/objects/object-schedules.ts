import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { transaction } from '../../../db/database.ts'
import { openUpload } from '../../../db/objects/uploads/uploads.ts'
import { CodedError } from '../../../policy/errors.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { ObjectActs } from './object-acts.ts'
import { bytesOf, sizeOf, storageLimit } from './object-bytes.ts'
import { Draws, names, writable } from './object-draws.ts'
import { type Act, explain, type Model, type Observed } from './object-model.ts'
import type { ObjectProcess } from './object-s3-acts.ts'
import { keptBy } from './object-state.ts'

/** One account for schedules: concurrent acts whose outcome must equal that of some serial order. */
export class Schedules {
  readonly #acts: ObjectActs
  readonly #processes: readonly ObjectProcess[]
  readonly #draws: Draws
  #model: Model = { objects: {}, uploads: {}, results: {} }
  #births = new Set<string>()
  /** Every allocated segment that has not been removed. */
  #segments = new Set<string>()
  /** Segments that something has referred to: their removal is reported. */
  readonly used = new Set<string>()
  /** Uploads that were answered as done. */
  uploaded = 0

  constructor(acts: ObjectActs, processes: readonly ObjectProcess[], seed: number) {
    this.#acts = acts
    this.#processes = processes
    this.#draws = new Draws(seed)
  }

  /** Runs one schedule. Throws an Error with the whole schedule if no order explains the outcome, or something is lost or leaked. */
  async run(): Promise<void> {
    const sweptMeanwhile = this.#acts.sweeps.watch()
    const acts = await this.#draw()
    const before = structuredClone(this.#model)
    const observed = await Promise.all(acts.map(act => this.#outcomeOf(act)))
    const kept = await this.#kept()
    const births = Object.values(kept.objects).map(object => object.birth)
    for (const object of Object.values(kept.objects)) if (!this.#births.has(object.birth)) object.birth = 'new'
    const { objects, uploads, results } = kept
    const meanwhile = { swept: sweptMeanwhile(), full: bytesIn(before) + mostBrought(before, acts) > storageLimit }
    const after = explain(before, observed, meanwhile, model => isDeepStrictEqual(model, { objects, uploads, results }))
    const wrong = kept.wrong.length > 0 || new Set(births).size < births.length
    if (!after || wrong) throw new Error(JSON.stringify({ before, observed, meanwhile, kept }, null, 1))
    Object.values(objects).forEach((object, n) => {
      object.birth = births[n]!
      this.#births.add(object.birth)
    })
    for (const { act, outcome } of observed)
      if ('segment' in act && /^(stored|replaced)$/.test(outcome)) {
        this.used.add(act.segment)
        if (act.kind === 'put') this.uploaded++
      }
    const last = Object.entries(results).slice(-2)
    this.#model = { objects, uploads, results: Object.fromEntries(last) }
    this.#segments = new Set(kept.segments)
  }

  /** Removes everything, sweeps, and says what is left of it: nothing, or something has leaked. */
  async end(): Promise<string[]> {
    const process = this.#processes[0]!
    for (const upload of Object.keys(this.#model.uploads)) await this.#acts.do({ kind: 'abort', upload }, process)
    await this.#acts.do({ kind: 'tidy', names }, process)
    await this.#acts.do({ kind: 'remove', names }, process)
    await this.#acts.do({ kind: 'sweep' }, process)
    const { objects, uploads, segments, wrong } = await this.#kept()
    return [...Object.keys(objects), ...Object.keys(uploads), ...segments, ...wrong]
  }

  /** What is stored, and what is wrong with it, including segments that differ in the store. */
  async #kept() {
    const { ownerId, store } = this.#acts
    const { uploads, results } = this.#model
    const ids = [...Object.keys(uploads), ...Object.keys(results)]
    const kept = await keptBy(this.#processes[0]!.db, ownerId, [...this.#segments], ids)
    const bytes = Object.values(kept.objects).reduce((sum, { segments }) => sum + segments.reduce(plus, 0), 0)
    if (bytes > storageLimit) kept.wrong.push(`${bytes} bytes in an account for ${storageLimit}`)
    for (const id of kept.stored) {
      const body = await store.read(id, 0, sizeOf(id) + 1).catch(error => error as Error)
      if (body instanceof Error || !body.equals(bytesOf(id))) kept.wrong.push(`the body of ${id}`)
    }
    return kept
  }

  /** Two to four acts; their bodies are drawn before, as an upload draws its own. */
  async #draw(): Promise<Act[]> {
    if (Object.keys(this.#model.uploads).length < 2) await this.#open()
    const acts = this.#draws.acts(this.#model)
    const fresh = acts.flatMap(act => ('segment' in act ? [act.segment] : []))
    const drawn = acts.flatMap(act => ('segment' in act && !(act.kind === 'put' && act.inline) ? [act.segment] : []))
    await this.#processes[0]!.db.raw('insert into segments (id) select unnest(?::text[])', [drawn])
    for (const id of fresh) this.#segments.add(id)
    return acts
  }

  async #open(): Promise<void> {
    const wire = this.#draws.roll(2) === 0 ? 'blob' : 's3'
    const isS3 = wire === 's3'
    const [name, overwrite] = [this.#draws.pick(isS3 ? writable : names), isS3 || this.#draws.roll(2) === 0]
    const object = {
      content_type: 'x',
      cache_control: null,
      content_disposition: null,
      original_name: null,
      metadata: {},
      wire,
      s3: isS3 ? {} : null,
    } as const
    const rest = { overwrite, expires_at: null, max_parts: 9, max_bytes: 1e9, upload_token_id: null }
    const { ownerId, ...at } = this.#acts.name(name)
    const row = { owner_id: ownerId, ...at, ...object, ...rest }
    const id = await transaction(this.#processes[0]!.db, trx => openUpload(trx, row, 9))
    this.#model.uploads[id!] = { name, wire, overwrite, parts: {} }
  }

  async #outcomeOf(act: Act): Promise<Observed> {
    const process = this.#draws.pick(this.#processes)
    if (this.#draws.roll(2) === 0) await sleep(this.#draws.roll(3))
    try {
      return { act, outcome: await this.#acts.do(act, process) }
    } catch (error) {
      if (error instanceof CodedError || error instanceof S3Error) return { act, outcome: error.code }
      throw error
    }
  }
}

const plus = (sum: number, segment: string): number => sum + sizeOf(segment)

const bytesIn = ({ objects }: Model): number =>
  Object.values(objects).reduce((sum, { segments }) => sum + segments.reduce(plus, 0), 0)

/** No less than what these acts want room for, whatever order they come in. */
function mostBrought(before: Model, acts: readonly Act[]): number {
  const sum = (segments: readonly string[]): number => segments.reduce(plus, 0)
  const parts = (upload: string): string[] => [
    ...Object.values(before.uploads[upload]?.parts ?? {}),
    ...acts.flatMap(act => (act.kind === 'part' && act.upload === upload ? [act.segment] : [])),
  ]
  const made = acts.map(act => {
    if (act.kind === 'put') return sizeOf(act.segment)
    return act.kind === 'complete' || act.kind === 's3complete' ? sum(parts(act.upload)) : 0
  })
  const largest = Math.max(...made, ...Object.values(before.objects).map(({ segments }) => sum(segments)))
  const copied = acts.filter(({ kind }) => /copy|share/.test(kind)).length * largest
  const open = Object.values(before.uploads).flatMap(({ parts }) => Object.values(parts))
  const arriving = acts.flatMap(act => (act.kind === 'part' ? [act.segment] : []))
  return made.reduce((all, bytes) => all + bytes, copied) + sum([...open, ...arriving])
}
