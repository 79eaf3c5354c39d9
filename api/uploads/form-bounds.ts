import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { KiB } from '../../lib/bytes.ts'
import { formExtra } from '../../policy/body-budgets.ts'

/** The file that a form is sent for. */
type FormFile = Readable & { bytesRead?: number }

export interface FormBounds {
  /** The file starts: what arrives until its end is not counted. */
  file(file: FormFile): void
  end(): void
}

/**
 * Bounds what a form contains in addition to its file: text before the first part and after the last, headers, fields, other files.
 * Calls `tooMuch` past `bytes`, and `tooLong` when it takes more than `seconds` before or after the file: a client could otherwise send
 * such data for ever, at any pace.
 */
export function boundForm(
  request: IncomingMessage,
  { tooMuch, tooLong }: { tooMuch: () => void; tooLong: () => void },
  { bytes, seconds }: { bytes: number; seconds: number } = formExtra,
): FormBounds {
  let arrived = 0
  let body: FormFile | undefined
  let timer = setTimeout(tooLong, seconds * 1000)
  const count = (piece: Buffer) => {
    arrived += piece.length
    if (arrived - (body?.bytesRead ?? 0) > bytes + pieceBytes) tooMuch()
  }
  request.on('data', count)
  return {
    file(file) {
      body = file
      clearTimeout(timer)
      file.once('end', () => {
        timer = setTimeout(tooLong, seconds * 1000)
      })
    },
    end() {
      clearTimeout(timer)
      request.off('data', count)
    },
  }
}

/** Bytes that have arrived and that the parser may not have counted yet. */
const pieceBytes = 128 * KiB
