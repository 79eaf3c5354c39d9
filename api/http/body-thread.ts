import { parentPort, workerData } from 'node:worker_threads'
import { fileTooLarge, maxFileBytes } from '../../policy/apps/file-content.ts'
import { ApiError } from '../../policy/errors.ts'
import { type BodyForm, parseBody } from './body.ts'
import { measureBody } from './body-measure.ts'

// The thread that parses one large body. It ends afterwards, which frees all the memory that this took.

/** Values are copied to the other thread one by one; the bytes of a file are transferred. */
const maxValues = 20_000

export interface BodyJob {
  bytes: Uint8Array
  form: BodyForm
}

export type BodyReply = { value: Record<string, unknown> } | { refused: { code: ApiError['code']; message: string } }

function reply({ bytes, form }: BodyJob): BodyReply {
  try {
    const { bytes: numbers, values } = measureBody(bytes)
    if (form.file && numbers > maxFileBytes) throw fileTooLarge()
    if (values + (form.file ? 0 : numbers) > maxValues)
      throw new ApiError('INVALID_JSON_BODY', `A body of over 1 MB must have at most ${maxValues} values.`)
    return { value: parseBody(bytes, form) }
  } catch (error) {
    if (error instanceof ApiError) return { refused: { code: error.code, message: error.message } }
    throw error
  }
}

const answer = reply(workerData)
const content = 'value' in answer && answer.value.content
parentPort!.postMessage(answer, content instanceof Uint8Array ? [content.buffer as ArrayBuffer] : [])
