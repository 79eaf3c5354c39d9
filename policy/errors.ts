import { aiErrors } from './ai/ai-errors.ts'
import { managementErrors } from './management-errors.ts'
import { blobErrors } from './objects/blob-errors.ts'

export type ErrorCode = keyof typeof managementErrors | keyof typeof blobErrors | keyof typeof aiErrors

/** The API whose codes an answer uses. */
export type Wire = 'management' | 'blob' | 'ai'

type Catalogue = Partial<Record<ErrorCode, readonly [status: number, message: string]>>
const catalogues: Record<Wire, Catalogue> = { management: managementErrors, blob: blobErrors, ai: aiErrors }

/** Status and message of a code on a wire; a code that this wire lacks has those of another. */
export function catalogueEntry(code: ErrorCode, wire: Wire = 'management'): readonly [status: number, message: string] {
  const { management, blob, ai } = catalogues
  return catalogues[wire][code] ?? management[code] ?? blob[code] ?? ai[code]!
}

/** What a wire answers in place of what was requested; the wires differ in their codes. */
export class Refusal extends Error {}

/** A refusal or failure with a code of the catalogue. `message` replaces the table's message where more is known. */
export class CodedError extends Refusal {
  constructor(
    readonly code: ErrorCode,
    message?: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message ?? catalogueEntry(code)[1])
    this.name = 'CodedError'
  }

  get status(): number {
    return catalogueEntry(this.code)[0]
  }
}

/** A failure that the caller cannot have caused: its code is answered with 500 instead of the code's own status. */
export class UnexpectedFailure extends CodedError {
  override get status(): number {
    return unexpectedStatus
  }
}

/** The status of a failure that the caller cannot have caused. */
export const unexpectedStatus = 500

/** Codes that have another name on a wire (contract 10.3 and 13.8). */
const names: Record<Wire, Partial<Record<ErrorCode, ErrorCode>>> = {
  management: {},
  blob: {
    KEEP_CALM: 'RATE_LIMITED',
    RATE_LIMIT: 'RATE_LIMITED',
    INVALID_JSON_BODY: 'INVALID_BODY',
    PAYLOAD_TOO_LARGE: 'FILE_TOO_LARGE',
    UPLOAD_ABORTED: 'UPLOAD_FAILED',
    ROUTE_NOT_FOUND: 'NOT_FOUND',
  },
  ai: {
    KEEP_CALM: 'RATE_LIMITED',
    RATE_LIMIT: 'RATE_LIMITED',
    INVALID_PARAMETERS: 'INVALID_REQUEST',
    INVALID_INPUT: 'INVALID_REQUEST',
    INVALID_CONTENT_TYPE: 'INVALID_JSON_BODY',
    UPLOAD_TOKEN_NOT_ALLOWED: 'MISSING_SCOPE',
    ROUTE_NOT_FOUND: 'NOT_FOUND',
    UPLOAD_BUSY: 'SERVER_OVERLOADED',
    DATABASE_UNAVAILABLE: 'SERVER_OVERLOADED',
  },
}

/** The name that a code has on a wire. */
export const codeOn = (wire: Wire, code: ErrorCode): ErrorCode => names[wire][code] ?? code

/** A code as a wire spells it; the AI gateway's are in lower case (contract 13.8). */
export function shownCode(wire: Wire, code: ErrorCode): string {
  const name = codeOn(wire, code)
  return wire === 'ai' ? name.toLowerCase() : name
}

/** Message of DATABASE_UNAVAILABLE for a change that may have been made, and must not be retried blindly. Pages recognize it by this text. */
export const inDoubtMessage = 'It is not known whether this was done. Check before you try again.'

/** A change that may have been made, or may still be. */
export const inDoubt = (): CodedError => new CodedError('DATABASE_UNAVAILABLE', inDoubtMessage, 2)

/** An error on a wire, with the wire's name, status and, unless it has its own, message. */
export function errorOn(error: CodedError, wire: Wire): { code: ErrorCode; status: number; message: string } {
  const code = codeOn(wire, error.code)
  const [usual, sentence] = catalogueEntry(code, wire)
  const status = error instanceof UnexpectedFailure ? unexpectedStatus : usual
  return { code, status, message: error.message === catalogueEntry(error.code)[1] ? sentence : error.message }
}

/** True when a text is a code of a catalogue. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.values(catalogues).some(catalogue => Object.hasOwn(catalogue, text))
}
