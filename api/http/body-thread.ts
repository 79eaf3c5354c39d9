import { parentPort, workerData } from 'node:worker_threads'
import { fileTooLarge, maxFileBytes } from '../../policy/apps/file-content.ts'
import { denseJson, maxDeliveryValues } from '../../policy/body-budgets.ts'
import { CodedError } from '../../policy/errors.ts'
import { type DeliveryReaders, deliveryReaders } from '../../policy/git/webhooks/app-events.ts'
import { type InboundDelivery, payloadText } from '../../policy/git/webhooks/deliveries.ts'
import { type BodyForm, parseBody } from './body.ts'
import { measureBody } from './body-measure.ts'

// The thread that parses one large body. It ends afterwards, which frees all the memory that this took.

export interface JsonJob {
  bytes: Uint8Array
  form: BodyForm
}

/** A delivery of a git provider. It is read here too, so that its values are not copied. */
export interface DeliveryJob {
  bytes: Uint8Array
  kind: keyof DeliveryReaders
  inbound: Omit<InboundDelivery, 'body'>
}

export type BodyJob = JsonJob | DeliveryJob

export type BodyReply = { value: unknown } | { refused: { code: CodedError['code']; message: string } }

function parse({ bytes, form }: JsonJob): Record<string, unknown> {
  const { bytes: numbers, values } = measureBody(bytes)
  if (form.file && numbers > maxFileBytes) throw fileTooLarge()
  // Values are copied to the other thread one by one; the bytes of a file are transferred.
  if (values + (form.file ? 0 : numbers) > denseJson.maxValues)
    throw new CodedError('INVALID_JSON_BODY', `A body must have at most ${denseJson.maxValues} values.`)
  return parseBody(bytes, form)
}

function read({ bytes, kind, inbound }: DeliveryJob): ReturnType<DeliveryReaders[keyof DeliveryReaders]> {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const text = payloadText(inbound.headers['content-type'], body)
  const measure = measureBody(Buffer.from(text ?? ''))
  if (measure.values + measure.bytes > maxDeliveryValues) throw new CodedError('PAYLOAD_TOO_LARGE')
  return deliveryReaders[kind]({ ...inbound, body })
}

function reply(job: BodyJob): BodyReply {
  try {
    return { value: 'form' in job ? parse(job) : read(job) }
  } catch (error) {
    if (error instanceof CodedError) return { refused: { code: error.code, message: error.message } }
    throw error
  }
}

const answer = reply(workerData)
const content = 'value' in answer && (answer.value as { content?: unknown }).content
parentPort!.postMessage(answer, content instanceof Uint8Array ? [content.buffer as ArrayBuffer] : [])
