import type { Redis } from 'ioredis'
import { limitOfReply } from '../read-limits.ts'
import type { Part } from './redis-sums.ts'

/** Ends the conversation, with DumpPrevented, once one reply has more bytes than this: it would be in memory as a whole. */
export function boundReplies(redis: Redis, maxBytes: number): void {
  const limit = limitOfReply(maxBytes)
  const isAnswered = () => {
    limit.bytes = 0
  }
  const send = redis.sendCommand
  redis.sendCommand = (...command) => {
    const answer = send.apply(redis, command) as Promise<unknown>
    answer.then(isAnswered, isAnswered)
    return answer
  }
  limit.watch(redis.stream)
}

/** Calls `take` with pages of what a command of the SCAN family iterates, in groups of `width` parts. Elements may come more than once. */
export async function scan(
  redis: Redis,
  [name, ...args]: [string, ...Buffer[]],
  { width, page: count }: { width: number; page: number },
  take: (page: Buffer[][]) => void | Promise<void>,
): Promise<void> {
  for (let cursor = '0'; ; ) {
    const [next, page] = (await call(redis, name, ...args, cursor, 'COUNT', count)) as [Buffer, Buffer[]]
    const groups: Buffer[][] = []
    for (let at = 0; at < page.length; at += width) groups.push(page.slice(at, at + width))
    await take(groups)
    cursor = String(next)
    if (cursor === '0') return
  }
}

export const call = (redis: Redis, name: string, ...args: (string | Buffer | number)[]): Promise<unknown> =>
  redis.callBuffer(name, ...args)

/** A nested answer as a list of parts, with the number of parts before those of each list. */
export function flat(answer: unknown): Part[] {
  if (!Array.isArray(answer)) return [answer === null ? 'none' : Buffer.isBuffer(answer) ? answer : String(answer)]
  return [String(answer.length), ...answer.flatMap(flat)]
}

/**
 * What `FUNCTION LIST` answers, sorted by names: it lists libraries, and the functions of each, as hash tables have them whose seed each
 * process draws anew.
 */
export const inFixedOrder = (libraries: unknown): unknown[] =>
  byName(libraries, 'library_name').map(library => {
    const functions = placeOf(library, 'functions')
    return library.with(functions, byName(library[functions], 'name'))
  })

function byName(answers: unknown, name: string): unknown[][] {
  const nameOf = (answer: unknown[]) => answer[placeOf(answer, name)] as Buffer
  return (answers as unknown[][]).toSorted((one, other) => Buffer.compare(nameOf(one), nameOf(other)))
}

/** The index of this name's value in an answer that alternates names and values. */
const placeOf = (answer: unknown[], name: string): number =>
  answer.findIndex((each, at) => at % 2 === 0 && String(each) === name) + 1

/** Whether a server knows a command: versions of one major number differ in that. */
export async function hasCommand(redis: Redis, name: string): Promise<boolean> {
  const [about] = (await redis.call('COMMAND', 'INFO', name)) as unknown[]
  return about !== null
}

/** An answer that alternates names and values. */
export function fieldsOf(answer: unknown): Map<string, Buffer> {
  const list = answer as unknown[]
  const fields = new Map<string, Buffer>()
  for (let at = 0; at + 1 < list.length; at += 2) {
    const value = list[at + 1]
    fields.set(String(list[at]), Buffer.isBuffer(value) ? value : Buffer.from(String(value)))
  }
  return fields
}
