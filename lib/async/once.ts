/** Makes a value once, for the first caller and all later ones; after a failure the next caller tries again. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | null = null
  return () => {
    result ??= make().catch(error => {
      result = null
      throw error
    })
    return result
  }
}
