// Runs before the first paint, so that a chosen theme does not flash. A separate file: the daemon's
// content security policy allows no inline scripts.
try {
  const theme = localStorage.getItem("weir.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be disabled; then the system's setting applies.
}
