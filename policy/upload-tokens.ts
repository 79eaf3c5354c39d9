import { randomBase62 } from './ids.ts'

/** Told from API keys and session tokens by its beginning (contract 10). */
const form = /^bup_[0-9A-Za-z]{64}$/

export const isUploadToken = (credential: string): boolean => form.test(credential)

export const newUploadToken = (): string => `bup_${randomBase62(64)}`

/** What whoever minted a token fixes for its uploads; a field that is absent is the uploader's choice, but `private`. */
export interface UploadPins {
  name?: string
  prefix?: string
  private?: boolean
  security_hash?: boolean
  expire?: string
  max_size?: number
  allowed_extensions?: string[]
  metadata?: Record<string, string>
}
