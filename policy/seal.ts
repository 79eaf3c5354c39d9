import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { deriveKey } from './keys.ts'

/** Keys that secrets in columns are sealed with, 32 bytes each, by the number that is the first byte of every sealed text. */
export interface SealKeys {
  /** Seals what is written from now on; the others only read. */
  current: number
  keys: ReadonlyMap<number, Buffer>
}

/** Number of the key that derives from the installation's root secret: there is always one. */
export const firstKeyId = 1
const maxKeyId = 255
const form = /^([1-9]\d{0,2}):([0-9a-f]{64})$/

/**
 * The first key and those that rotations have added: `2:<64 hex>,3:<64 hex>`. The highest number seals. Throws an Error that
 * names the setting and shows nothing of it.
 */
export function sealKeys(masterKeyHex: string, further = ''): SealKeys {
  const keys = new Map([[firstKeyId, deriveKey(masterKeyHex, 'seal/1')]])
  for (const pair of further.split(',').filter(Boolean)) {
    const [, id, hex] = form.exec(pair.trim()) ?? []
    if (!id || !hex || Number(id) > maxKeyId || keys.has(Number(id)))
      throw new Error(
        `The setting BERTH_SEAL_KEYS must be pairs such as 2:<64 hex>, each number from 2 to ${maxKeyId} once.`,
      )
    keys.set(Number(id), Buffer.from(hex, 'hex'))
  }
  return { current: Math.max(...keys.keys()), keys }
}

/** Encrypts a secret for a column (AES-256-GCM), bound to the row and column it belongs to. */
export function seal({ current, keys }: SealKeys, text: string, belongsTo: string): Buffer {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', keys.get(current) as Buffer, nonce).setAAD(Buffer.from(belongsTo))
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(current), nonce, cipher.getAuthTag(), body])
}

/** The secret again. Throws an Error when the bytes were changed, belong elsewhere, or were sealed with a key that is not here. */
export function unseal({ keys }: SealKeys, sealed: Buffer, belongsTo: string): string {
  const key = keys.get(sealed[0] ?? 0)
  if (!key || sealed.length < 29) throw new Error('A sealed secret names a key that this installation does not have.')
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(1, 13))
  decipher.setAAD(Buffer.from(belongsTo)).setAuthTag(sealed.subarray(13, 29))
  return Buffer.concat([decipher.update(sealed.subarray(29)), decipher.final()]).toString('utf8')
}
