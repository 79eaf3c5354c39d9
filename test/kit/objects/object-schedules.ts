import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { transaction } from '../../../db/database.ts'
import { openUpload } from '../../../db/objects/uploads/uploads.ts'
import { ApiError } from '../../../policy/errors.ts'
import { newId } from '../../../policy/ids.ts'
import { bytesOf, type ObjectActs, type ObjectProcess, sizeOf, storageLimit } from './object-acts.ts'
import { type Act, explain, type Model, type Observed } from './object-model.ts'
import { keptBy } from './object-state.ts'

/** Few names, so that everything meets. */
const names = ['public a', 'public b', 'private a', 'private b', 'legacy a']

/** Repeats itself from its seed: numbers from 0 up to, not with, a bound. */
function dice(seed: number): (below: number) => number {
  let state = seed >>> 0
  return below => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** One account for schedules: concurrent acts whose outcome must equal that of some serial order. */
export class Schedules {
  readonly #acts: ObjectActs
  readonly #processes: readonly ObjectProcess[]
  readonly #roll: (below: number) => number
  #model: Model = { objects: {}, uploads: {} }
  #births = new Set<string>()
  /** Every allocated segment that has not been removed. */
  #segments = new Set<string>()
  /** Segments that something has referred to: their removal is reported. */
  readonly used = new Set<string>()
  /** Uploads that were answered as done. */
  uploaded = 0
  #n = 0

  constructor(acts: ObjectActs, processes: readonly ObjectProcess[], seed: number) {
    this.#acts = acts
    this.#processes = processes
    this.#roll = dice(seed)
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
    const { objects, uploads } = kept
    const beside = { swept: sweptMeanwhile(), full: bytesIn(before) + mostBrought(before, acts) > storageLimit }
    const after = explain(before, observed, beside, model => isDeepStrictEqual(model, { objects, uploads }))
    const wrong = kept.wrong.length > 0 || new Set(births).size < births.length
    if (!after || wrong) throw new Error(JSON.stringify({ before, observed, beside, kept }, null, 1))
    Object.values(objects).forEach((object, n) => {
      object.birth = births[n]!
      this.#births.add(object.birth)
    })
    for (const { act, outcome } of observed)
      if ('segment' in act && /^(stored|replaced)$/.test(outcome)) {
        this.used.add(act.segment)
        if (act.kind === 'put') this.uploaded++
      }
    this.#model = { objects, uploads }
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
    const kept = await keptBy(this.#processes[0]!.db, ownerId, [...this.#segments])
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
    const kinds = Array.from({ length: 2 + this.#roll(3) }, () => this.#pick(table))
    const acts = kinds.map(kind => this.#act(kind))
    const fresh = acts.flatMap(act => ('segment' in act ? [act.segment] : []))
    const drawn = acts.flatMap(act => ('segment' in act && !(act.kind === 'put' && act.beside) ? [act.segment] : []))
    await this.#processes[0]!.db.raw('insert into segments (id) select unnest(?::text[])', [drawn])
    for (const id of fresh) this.#segments.add(id)
    return acts
  }

  #act(kind: Act['kind']): Act {
    const name = this.#pick(names)
    const overwrite = this.#roll(2) === 0
    const upload = this.#pick(Object.keys(this.#model.uploads))
    switch (kind) {
      case 'put':
        return { kind, name, overwrite, segment: newId(), beside: this.#roll(2) === 0 }
      case 'remove':
      case 'tidy':
        return { kind, names: this.#roll(2) === 0 ? [name] : names.filter(() => this.#roll(2) === 0) }
      case 'move':
      case 'copy':
        return { kind, from: name, to: this.#pick(names.filter(other => other !== name)), overwrite }
      case 'expire':
        return { kind, name }
      case 'header':
        return { kind, name, header: `${this.#n++}` }
      case 'part':
        return { kind, upload, part: 1 + this.#roll(3), segment: newId() }
      case 'complete':
      case 'abort':
      case 'reclaim':
        return { kind, upload }
      default:
        return { kind }
    }
  }

  async #open(): Promise<void> {
    const [name, overwrite] = [this.#pick(names), this.#roll(2) === 0]
    const object = {
      content_type: 'x',
      cache_control: null,
      content_disposition: null,
      original_name: null,
      metadata: {},
      wire: 'blob',
      s3: null,
    } as const
    const rest = { overwrite, expires_at: null, max_parts: 9, max_bytes: 1e9, upload_token_id: null }
    const { ownerId, ...at } = this.#acts.name(name)
    const row = { owner_id: ownerId, ...at, ...object, ...rest }
    const id = await transaction(this.#processes[0]!.db, trx => openUpload(trx, row, 9))
    this.#model.uploads[id!] = { name, overwrite, parts: {} }
  }

  async #outcomeOf(act: Act): Promise<Observed> {
    const process = this.#pick(this.#processes)
    if (this.#roll(2) === 0) await sleep(this.#roll(3))
    try {
      return { act, outcome: await this.#acts.do(act, process) }
    } catch (error) {
      if (error instanceof ApiError) return { act, outcome: error.code }
      throw error
    }
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#roll(list.length)]!
  }
}

/** How often each act is drawn. */
const table: Act['kind'][] = (
  'put put put put remove remove move move move copy copy expire tidy header part part part complete complete complete abort reclaim ' +
  'sweep fold'
).split(' ') as Act['kind'][]

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
    return act.kind === 'complete' ? sum(parts(act.upload)) : 0
  })
  const largest = Math.max(...made, ...Object.values(before.objects).map(({ segments }) => sum(segments)))
  const copied = acts.filter(({ kind }) => kind === 'copy').length * largest
  const open = Object.values(before.uploads).flatMap(({ parts }) => Object.values(parts))
  const arriving = acts.flatMap(act => (act.kind === 'part' ? [act.segment] : []))
  return made.reduce((all, bytes) => all + bytes, copied) + (arriving.length > 0 ? sum([...open, ...arriving]) : 0)
}
