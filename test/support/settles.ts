/** Runs `check` until it throws no more; after `timeoutMs` its last error is the test's. */
export async function settles(check: () => unknown, timeoutMs = 10_000): Promise<void> {
  for (const end = performance.now() + timeoutMs; ; ) {
    try {
      await check()
      return
    } catch (error) {
      if (performance.now() > end) throw error
    }
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
