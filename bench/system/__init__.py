"""The system itself: kernels, clients, servers, collections, and the page that gathers their figures."""
