import type { Readable } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { CodedError } from '../../../policy/errors.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { inviteBody } from '../../http/body.ts'
import type { Exchange } from '../../http/exchange.ts'
import { watchPace } from '../../http/pace.ts'
import type { Services } from '../../services.ts'
import { boundForm } from '../../uploads/form-bounds.ts'
import { heldBytes } from '../../uploads/raw-body.ts'
import { type BodyRules, storeBody } from '../../uploads/uploads.ts'
import type { Payload } from './payload.ts'
import { PayloadStream } from './payload-stream.ts'
import { type ReceivedBody, verified } from './receive.ts'

/** The fields of a form before its file, by name in lower case. */
export type FormFields = ReadonlyMap<string, string>

/** A form whose fields have arrived, and of whose file nothing has been read. */
export interface ReceivedForm {
  fields: FormFields
  fileName: string
  /** Streams the file into the object store and verifies it; a refusal leaves nothing behind. */
  receiveFile(services: Services, rules: BodyRules, stated: Pick<Payload, 'checksum' | 'md5'>): Promise<ReceivedBody>
  /** Stops reading the body. */
  end(): void
}

/** Reads a form up to its file. Throws MalformedPOSTRequest, EntityTooLarge for fields over 20 KiB, InvalidArgument and UPLOAD_ABORTED. */
export async function receiveForm({ request, response }: Exchange): Promise<ReceivedForm> {
  const form = openForm(request.headers)
  const whole = wholeForm(form, request)
  const parts = fileOf(form, whole.arrived)
  inviteBody(request, response)
  request.pipe(form)
  const end = () => {
    whole.stop()
    request.unpipe(form)
  }
  try {
    const { file, ...read } = await parts
    return {
      ...read,
      end,
      async receiveFile(services, rules, { checksum, md5 }) {
        const payload = { length: null, chunks: null, sha256: null, md5, checksum }
        const stream = new PayloadStream(payload, heldBytes)
        const cancel = new AbortController()
        // Its reader reports one that breaks off; without a listener that would end this process.
        stream.on('error', () => {})
        let broken: Error | undefined
        whole.arrived.catch(error => {
          broken = error
          cancel.abort()
          stream.destroy(error)
        })
        const isRefused = () => stream.refusal !== null
        const arrived = await storeBody(file.pipe(stream), services, { ...rules, isRefused }, cancel).catch(error => {
          throw stream.refusal ?? broken ?? error
        })
        return verified(payload, { arrived, stream, ended: whole.arrived }, services)
      },
    }
  } catch (error) {
    end()
    form.destroy()
    throw error
  }
}

function openForm(headers: Exchange['request']['headers']): BusboyInstance {
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': headers['content-type'] ?? '' },
      limits: {
        ...s3Limits.form,
        fieldNameSize: s3Limits.formBytes,
        fieldSize: s3Limits.formBytes,
        fileSize: s3Limits.putBytes + 1,
      },
      // Not only browsers send forms: other programs leave out the name of the file.
      isPartAFile: (field, _type, fileName) => fileName !== undefined || field === 'file',
    })
  } catch {
    throw new S3Error('MalformedPOSTRequest')
  }
}

/** Resolves once the last boundary has arrived; rejects when the form is malformed, breaks off, or arrives too slowly. */
function wholeForm(form: BusboyInstance, request: Exchange['request']): { arrived: Promise<void>; stop(): void } {
  let stop = () => {}
  const arrived = new Promise<void>((resolve, reject) => {
    const lost = () => request.complete || reject(new CodedError('UPLOAD_ABORTED'))
    form.once('finish', resolve)
    form.on('error', () =>
      reject(request.complete ? new S3Error('MalformedPOSTRequest') : new CodedError('UPLOAD_ABORTED')),
    )
    request.once('close', lost).once('error', lost)
    const tooLong = () => reject(new CodedError('UPLOAD_ABORTED'))
    const stopWatch = watchPace(request, tooLong)
    // The sender is unknown until the fields have arrived, so the connection has the deadlines and bounds of forms.
    const bounds = boundForm(request, { tooMuch: () => reject(new S3Error('EntityTooLarge')), tooLong })
    form.on('file', (name, file) => {
      if (name === 'file') bounds.file(file)
    })
    stop = () => {
      stopWatch()
      bounds.end()
      request.off('close', lost).off('error', lost)
    }
  })
  arrived.catch(ignoreError('the file, or the fields before it, report it'))
  return { arrived, stop }
}

/** The file of a form, and the fields that came before it. */
function fileOf(
  form: BusboyInstance,
  whole: Promise<void>,
): Promise<{ fields: FormFields; file: Readable; fileName: string }> {
  const fields = new Map<string, string>()
  let bytes = 0
  return new Promise((resolve, reject) => {
    const tooMuch = () => reject(new S3Error('EntityTooLarge', 'The fields of the form exceed 20 KiB, or 100.'))
    // The parser's types do not say that a part may have no name.
    form.on('field', (field: string | undefined, value: string, isNameCut: boolean, isCut: boolean) => {
      if (field === undefined) return reject(new S3Error('MalformedPOSTRequest'))
      const name = field.toLowerCase()
      bytes += Buffer.byteLength(name) + Buffer.byteLength(value)
      if (isNameCut || isCut || bytes > s3Limits.formBytes) return tooMuch()
      // The policy would cover only one of them.
      if (fields.has(name)) return reject(new S3Error('InvalidArgument', `The field ${name} comes twice.`))
      fields.set(name, value)
    })
    form.once('fieldsLimit', tooMuch).once('partsLimit', tooMuch)
    form.on('file', (name, file, fileName) => {
      // As above.
      file.on('error', () => {})
      // What follows the file is not read as a field, as with S3.
      if (name === 'file') resolve({ fields: new Map(fields), file, fileName: fileName ?? '' })
      else file.resume()
    })
    const missing = new S3Error('InvalidArgument', 'The form must have a field named file, after the others.')
    whole.then(() => reject(missing), reject)
  })
}
