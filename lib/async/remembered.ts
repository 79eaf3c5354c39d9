/** Makes a value once, for the first caller and all later ones; after a failure the next caller tries again. */
export function remembered<T>(make: () => Promise<T>): () => Promise<T> {
  let known: Promise<T> | null = null
  return () => {
    known ??= make().catch(error => {
      known = null
      throw error
    })
    return known
  }
}
