import { Worker } from 'node:worker_threads'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { threadProgram } from '../../lib/thread-program.ts'
import { CodedError } from '../../policy/errors.ts'
import type { BodyForm } from './body.ts'
import type { BodyJob, BodyReply, DeliveryJob } from './body-thread.ts'

const start = threadProgram('body-thread', import.meta.url)
const slots = new FairSlots({ atOnce: 2, perSubject: 1 })
/** Twice what a body can take after it was measured: a thread that reached its limit would end the process. */
const memoryMb = 512

/**
 * `parseBody` in a separate thread, so that a large body delays no other account: two run concurrently, one per account, and accounts
 * alternate. The bytes are transferred. Rejects with INVALID_JSON_BODY when the client disconnects while it waits.
 */
export async function parseInThread(
  bytes: Uint8Array<ArrayBuffer>,
  form: BodyForm,
  account: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<Record<string, unknown>> {
  return (await inThread({ bytes, form }, account, signal)) as Record<string, unknown>
}

/** Reads a delivery in the same threads. Rejects with PAYLOAD_TOO_LARGE when its JSON has too many values. */
export function readInThread(job: DeliveryJob, account: string, signal: AbortSignal): Promise<unknown> {
  return inThread(job, account, signal)
}

async function inThread(job: BodyJob, account: string, signal: AbortSignal): Promise<unknown> {
  const leave = await slots.enterUntil(account, signal).catch(() => {
    throw new CodedError('INVALID_JSON_BODY', 'The client disconnected.')
  })
  try {
    const reply = await run(job)
    if ('value' in reply) return reply.value
    throw new CodedError(reply.refused.code, reply.refused.message)
  } finally {
    leave()
  }
}

function run(job: BodyJob): Promise<BodyReply> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(start, {
      eval: true,
      workerData: job,
      transferList: [job.bytes.buffer as ArrayBuffer],
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      env: {},
    })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', code => reject(new Error(`the thread that parses a body ended with exit code ${code}`)))
  })
}
