import { GiB } from '../../lib/bytes.ts'
import type { BlobPrices } from './blob-settings.ts'

/** What an account would be charged for its storage of a month, in the operator's currency. */
export interface StorageBill {
  /** Bytes beyond what the plan includes, on average of the month so far. */
  extraStorage: number
  storagePrice: number
  objectsPrice: number
  totalEstimate: number
}

/** The month as it stands, told and charged by nobody: prices are the operator's. */
export function storageBill(
  usage: { objects: number; averageStorage: number },
  includedBytes: number,
  prices: BlobPrices,
): StorageBill {
  const extraStorage = Math.max(0, Math.round(usage.averageStorage - includedBytes))
  const storagePrice = cents((extraStorage / GiB) * prices.perExtraGb)
  const objectsPrice = cents((usage.objects / 1000) * prices.perThousandObjects)
  return { extraStorage, storagePrice, objectsPrice, totalEstimate: cents(storagePrice + objectsPrice) }
}

const cents = (amount: number): number => Math.round(amount * 100) / 100
